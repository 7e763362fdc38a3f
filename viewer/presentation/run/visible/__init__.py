"""Which rows of a run's list are visible: windows, filters and collapsed stretches."""
