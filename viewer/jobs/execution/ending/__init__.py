"""What ends a job: cancelling, finishing, cleaning up and redacting again."""
