"""Send open pages what has changed."""
