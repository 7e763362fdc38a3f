"""Differences between texts and between JSON values, within a time limit. Knows nothing else."""
