"""A machine of the tests: runs each line of code that it is sent as JSON, and answers with a line of JSON."""

import json
import sys

import django

django.setup()

from viewer.data_folder import prepare_data_folder  # noqa: E402
from viewer.host_requests import HostRefusal  # noqa: E402

prepare_data_folder()
for line in sys.stdin:
    names: dict[str, object] = {}
    try:
        exec(json.loads(line), names)
        reply = {"result": names.get("result")}
    except HostRefusal as refusal:
        reply = {"refused": type(refusal).__name__, "text": str(refusal)}
    print(json.dumps(reply), flush=True)
