"""How experiments are run, kept and told of: a spec in, a result folder out."""
