"""What is on disk: the table of formats. No Django, no engine library."""
