"""A machine of the tests: runs each line of code that it is sent as JSON, and answers with a line of JSON."""

import json
import sys
from contextlib import ExitStack

import django

django.setup()

from viewer.host_requests import HostRefusal  # noqa: E402

with ExitStack() as stack:
    for line in sys.stdin:
        # What it enters into the stack runs until it ends.
        names: dict[str, object] = {"stack": stack}
        try:
            exec(json.loads(line), names)
            reply = {"result": names.get("result")}
        except HostRefusal as refusal:
            reply = {"refused": type(refusal).__name__, "text": str(refusal)}
        print(json.dumps(reply), flush=True)
