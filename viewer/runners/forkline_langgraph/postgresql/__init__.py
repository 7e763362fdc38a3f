"""The user's store in PostgreSQL: read for a fork, and written to by the engine's own saver."""
