"""The plan of a fork, and what can be edited before it."""
