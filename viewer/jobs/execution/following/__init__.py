"""What follows a runner: its spool, the rows of its events, and its outcome."""
