"""The HTTP interface: the documents of the terminal's ``--json``, for programs with an API token."""
