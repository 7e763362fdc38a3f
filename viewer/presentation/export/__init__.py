"""A run as one file that needs neither Forkline nor a network, made of redacted copies."""
