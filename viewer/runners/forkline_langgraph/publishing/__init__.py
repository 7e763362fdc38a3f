"""Writes forks from their scratch stores to the user's store."""
