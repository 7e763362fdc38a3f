"""The runner of CrewAI. Its name is unlikely to be that of a package in a project."""
