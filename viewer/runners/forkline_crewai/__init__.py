"""What the CrewAI child is made of. Its name is its own, so that no project's package can be taken for it."""
