"""The baselines of Sparkpace on real Spark: a stock standalone cluster and the schedulers of the paper's figures."""
