"""The pages of a fork, resume, new run and sweep: a form with the preview of its request."""
