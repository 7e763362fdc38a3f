"""Django's PostgreSQL backend, which notifies other processes of what it has committed."""
