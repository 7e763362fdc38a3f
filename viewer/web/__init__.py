"""Pages: their addresses, views and forms, and the messages that update open pages."""
