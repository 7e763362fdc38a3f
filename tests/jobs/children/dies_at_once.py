"""Cannot even begin, as where the engine is not installed."""

raise ModuleNotFoundError("No module named 'crewai'")
