"""Rules: each module yields the spans of the secrets that it finds in UTF-8 bytes."""
