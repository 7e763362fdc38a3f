"""What the source of a project says, read without importing it."""
