"""LangGraph's tables, as its checkpoint savers write them: the SQL, and the shapes of rows.

Standard library only: the runner loads this package by its path, since a project may have a package
``viewer``. The caller opens the database, and gives a function that returns the rows of a statement.
"""
