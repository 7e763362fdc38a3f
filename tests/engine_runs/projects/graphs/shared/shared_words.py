"""Imported from a folder that ``dependencies`` of langgraph.json names."""

GREETING = "hello"
