"""JSON: redacted as bytes where possible, and as texts that hold JSON themselves."""
