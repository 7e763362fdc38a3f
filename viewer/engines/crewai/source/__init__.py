"""Reads the source of a project without importing it."""
