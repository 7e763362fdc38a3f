"""Measures a location of 100,000 checkpoints in 500 runs, one with 20,000 checkpoints and 400 forks."""
