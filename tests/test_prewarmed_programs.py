"""A program that the tests start as a fork is like one that was started."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
# Its text lets it start as a fork: django.setup()
FORKED = "import json, os, signal, sys, threading  # django.setup()\n"
PRINT_FACTS = """
facts = [os.getppid(), sys.argv, os.getcwd(), os.environ["GIVEN"], sys.stdin.read(), "django" in sys.modules]
print(json.dumps(facts))
"""

PRINT_SETTINGS = """
import django; django.setup()
from django.apps import apps
from django.conf import settings
from django.db import connection, connections
from django.utils.translation import get_language, gettext, override
os.umask(mask := os.umask(0))
root = __import__("logging").getLogger()
with override("de"):
    said = gettext("Please correct the error below.")
facts = [connection.vendor, repr(connections.settings), get_language(), said, mask, repr(root.handlers)]
facts += [[one.label for one in apps.get_app_configs()], [one._meta.label for one in apps.get_models()]]
facts += [{name: repr(getattr(settings, name)) for name in dir(settings) if name.isupper()}]
import checkpoint_site.asgi, viewer.web.urls, sesame.settings, sesame.packers
facts += [repr(sesame.settings.SIGNING_KEY), repr(type(sesame.packers.packer))]
print(json.dumps([facts, "viewer.models" in before]))
"""


def started(code: str, *arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", FORKED + code, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, **options)


def test_it_is_a_child_with_its_own_arguments_variables_and_files() -> None:
    shown = started(PRINT_FACTS, "one", env={**os.environ, "GIVEN": "two"}, input="three")
    assert json.loads(shown.stdout) == [os.getpid(), ["-c", "one"], str(ROOT), "two", "three", True], shown


@pytest.mark.parametrize(
    ("code", "status", "printed"),
    [
        ("sys.exit(3)", 3, ""),
        ("sys.exit('wrong')", 1, "wrong\n"),
        ("raise KeyboardInterrupt", -signal.SIGINT, ""),
        ("threading.Thread(target=lambda: print('late', file=sys.stderr)).start()", 0, "late\n"),
    ],
)
def test_it_ends_as_python_does(code: str, status: int, printed: str) -> None:
    ended = started(code)
    assert (ended.returncode, ended.stderr) == (status, printed)


def test_it_can_be_signalled() -> None:
    with subprocess.Popen([sys.executable, "-c", f"{FORKED}signal.pause()"], cwd=ROOT) as child:
        child.terminate()
        assert child.wait(60) == -signal.SIGTERM


def test_with_other_variables_of_python_it_is_no_fork() -> None:
    shown = started(PRINT_FACTS, env={**os.environ, "GIVEN": "", "PYTHONUTF8": "1"}, input="")
    assert json.loads(shown.stdout)[-1] is False


@pytest.mark.parametrize("url", ["", "postgresql://nobody@127.0.0.1:1/rows"], ids=["sqlite", "postgresql"])
def test_its_settings_are_of_its_own_variables(tmp_path: Path, url: str) -> None:
    own = {
        "DJANGO_SETTINGS_MODULE": "checkpoint_site.settings",
        "DATABASE_URL": url,
        "AUDIT": "1",
        "DEBUG": "1",
    }
    own |= {"DATA_DIR": str(tmp_path), "SECRET_KEY": "its own key" * 5, "PORT": "8123"}
    variables = {**os.environ, **own}
    code = f"before = set(sys.modules){PRINT_SETTINGS}"
    # A variable of Python has the second one start from nothing.
    forked, other = (started(code, env=variables | more) for more in ({}, {"PYTHONUTF8": "1"}))
    assert forked.returncode == other.returncode == 0, forked.stderr + other.stderr
    (facts, has_models), (expected, is_warm) = (json.loads(one.stdout) for one in (forked, other))
    assert has_models and not is_warm
    assert facts == expected
