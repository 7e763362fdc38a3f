"""The stored copies of checkpoints, and what is redacted in them."""
