"""Runs the demo's program in a fork of a process that has imported CrewAI: run_newsroom.py ARGUMENTS."""

import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "demo/src"))
import_module("newsroom.main").run()
