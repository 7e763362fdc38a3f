"""Django's SQLite, which makes no second database where the one that this process had opened is gone."""
