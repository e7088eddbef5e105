"""The running, keeping and reporting of experiments: a spec in, a result folder out."""
