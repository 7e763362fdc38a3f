"""``python -m offline_model``: serve until the standard input closes, or until Ctrl-C."""

import argparse
import contextlib
import sys

from offline_model.server import OfflineModel

parser = argparse.ArgumentParser(prog="offline_model", description=__doc__)
parser.add_argument("--port", type=int, default=8017, help="0 takes a free one")
parser.add_argument("--listening", type=int, metavar="FD", help="a socket that listens, instead of a port")
parser.add_argument("--delay", type=float, default=0.05, help="seconds between two pieces of an answer")
options = parser.parse_args()

model = OfflineModel(options.port, options.delay, options.listening)
model.start()
print(model.url, flush=True)
# The process that started it holds the other end, so this one ends when that one ends.
with contextlib.suppress(KeyboardInterrupt):
    sys.stdin.read()
model.stop()
