"""What the runners of all engines share. Imports no engine."""
