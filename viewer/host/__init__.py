"""Everything that only the machine with the locations, projects and processes can do."""
