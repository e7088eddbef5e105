"""What Sparkpace is compared with on real Spark: a stock standalone cluster and the schedulers of the paper's figures."""
