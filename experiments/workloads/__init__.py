"""Plain Spark applications that check their own answers. They know nothing of Sparkpace and run under any master."""
