"""Plain Spark applications that check their own answers, know nothing of Sparkpace and run under any master; and what makes
their inputs (`inputs`)."""
