"""Fails before it starts, as if the engine were not installed."""

raise ModuleNotFoundError("No module named 'crewai'")
