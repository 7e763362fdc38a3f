"""PostgreSQL databases as locations: named in the settings, read in reader processes only."""
