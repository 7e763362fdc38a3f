"""The timeline of a run or a job: how it used time, tokens and money."""
