"""The part of the master that is kept on its disk, and how it gets there."""
