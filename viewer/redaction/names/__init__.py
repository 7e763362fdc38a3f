"""What the name of a field and the form of a value say about secrecy."""
