"""``make matrix``: every kind of run, resumed and forked by each version of CrewAI, as a table."""
