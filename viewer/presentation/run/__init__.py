"""From a run's rows to what its page draws: shapes, colours, words and the window of rows."""
