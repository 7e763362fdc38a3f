"""Run a job once: its process, its files, its questions, preflight checks and prewarmed processes."""
