"""A machine of the tests: runs each line of code that it is sent as JSON, and answers with a line of JSON.

With the argument ``patient``, it waits longer for other hosts than pages do.
"""

import json
import sys
import traceback

import django

django.setup()

from viewer.data_folder import prepare_data_folder  # noqa: E402
from viewer.host import remote  # noqa: E402
from viewer.host_requests import HostRefusal  # noqa: E402

if sys.argv[1:] == ["patient"]:
    remote.TAKEN_SECONDS = remote.SILENT_TAKEN_SECONDS = remote.ANSWER_SECONDS
prepare_data_folder()
for line in sys.stdin:
    names: dict[str, object] = {}
    try:
        exec(json.loads(line), names)
        reply = {"result": names.get("result")}
    except HostRefusal as refusal:
        reply = {"refused": type(refusal).__name__, "text": str(refusal)}
    except Exception:
        # Only this test fails.
        reply = {"failed": traceback.format_exc()}
    print(json.dumps(reply), flush=True)
