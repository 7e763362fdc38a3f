"""Refuses imports from locations of checkpoints and from the data folder, whatever the import path says.

Standard library only, and the syntax of Python 3.8: any Python that a project starts may load it.
"""
