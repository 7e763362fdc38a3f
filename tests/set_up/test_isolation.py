"""Tests never touch the repository's own data folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection

from tests.environments import environment_with
from tests.settings import OWN_DATABASE, SERVER
from viewer.models import Project

ROOT = Path(__file__).resolve().parent.parent.parent


def test_tests_do_not_use_the_repositorys_data_folder() -> None:
    assert not Path(settings.DATA_DIR).is_relative_to(ROOT)
    assert os.environ["DATA_DIR"] == str(settings.DATA_DIR)


@pytest.mark.django_db(transaction=True)
def test_a_process_with_the_ordinary_settings_uses_the_same_database() -> None:
    Project.objects.create(folder="/somewhere/newsroom", interpreter="python")
    code = (
        "import django; django.setup(); from viewer.models import Project; print(Project.objects.get().name)"
    )
    environment = environment_with()
    child = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert child.stdout.strip() == "newsroom", child.stderr
    name = OWN_DATABASE if SERVER else Path(settings.DATA_DIR) / "forkline.sqlite3"
    assert connection.settings_dict["NAME"] == name
