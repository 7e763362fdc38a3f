"""Real runs of CrewAI, for the tests and the compatibility matrix: projects, a model, runs."""
