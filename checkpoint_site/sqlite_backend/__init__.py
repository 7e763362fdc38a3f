"""Django's SQLite backend, which does not create a new database if the opened one has disappeared."""
