"""Sends the messages that are due, by mail and to webhooks, in a thread of the worker."""
