"""Storing what was read: rows of checkpoints and runs, with their place in the lineage."""
