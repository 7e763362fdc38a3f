"""The stored copies of checkpoints, and the redaction of secrets in them."""
