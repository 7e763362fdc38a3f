"""Prewarmed processes, for any engine: the command line names the module that imports in advance."""
