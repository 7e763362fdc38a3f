"""Calls its model until the project's folder has a file ``stop``. Notes each answer."""

import http.client
import os
import time
import urllib.request
from pathlib import Path

import tiny

spool = tiny.begin()
headers = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
request = urllib.request.Request(f"{os.environ['OPENAI_BASE_URL']}/models", headers=headers)
while not Path("stop").exists():
    try:
        with urllib.request.urlopen(request) as answer:
            found = str(answer.status)
    except (OSError, http.client.HTTPException) as error:
        found = f"refused: {error!r}"
    with open("called", "a") as file:
        file.write(f"{found}\n")
    time.sleep(0.05)
spool.write("ended", status="succeeded", result="", error="", traceback="")
