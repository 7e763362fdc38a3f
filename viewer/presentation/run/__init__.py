"""What the page of a run shows: shapes, colours, labels and the window of rows."""
