"""Exits without an ``ended`` event."""

import os

import tiny

tiny.begin()
print("about to leave", flush=True)
os._exit(3)
