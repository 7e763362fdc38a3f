"""Starts and restarts the web server and the worker, and ends them with the process that started them."""
