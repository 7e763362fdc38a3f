"""Starts the web server and the worker, restarts them, and ends them with whoever started them."""
