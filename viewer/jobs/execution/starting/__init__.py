"""What starts a runner: its program, environment, permissions and request."""
