"""Finding what was added to a folder since it was listed, without listing it again."""
