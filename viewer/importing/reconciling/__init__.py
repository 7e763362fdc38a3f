"""Stores snapshots as rows of checkpoints and runs, with their position in the lineage."""
