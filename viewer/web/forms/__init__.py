"""Forms: they validate what a person typed and give plain data. They start nothing."""
