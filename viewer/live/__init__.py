"""Keeps open pages up to date: what wakes a socket, and what is then sent."""
