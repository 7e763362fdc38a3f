"""The timeline of a run or a job: where its time, its tokens and its money went."""
