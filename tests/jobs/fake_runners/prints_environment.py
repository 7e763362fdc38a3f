"""Prints its environment, and returns its key."""

import os

import tiny

spool = tiny.begin()
for name, value in os.environ.items():
    print(f"{name}={value}")
print("used", os.environ["OPENAI_API_KEY"])
spool.write("ended", status="succeeded", result=os.environ["OPENAI_API_KEY"], error="", traceback="")
