"""The decisions of the master, pure: the shell around them gives them the time and all that they must know of the outside."""
