"""Plain Spark applications that check their own answers, know nothing of Sparkpace and run under any master; and the making
of their inputs (`inputs`)."""
