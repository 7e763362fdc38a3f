"""Import, index, copy, write and prune what locations hold."""
