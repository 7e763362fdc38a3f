"""The screens that start something: fork, resume, sweep and new run."""
