"""The variations of a sweep, and the dimensions in which they differ."""
