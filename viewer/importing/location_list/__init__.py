"""The list of locations: finding, adding and removing them, and where new runs write."""
