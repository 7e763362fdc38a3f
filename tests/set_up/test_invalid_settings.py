"""An invalid environment variable ends every command with a one-line message."""

import subprocess
import sys
from pathlib import Path

import pytest

from checkpoint_site import environment
from checkpoint_site.environment import InvalidSetting, env_hosts, env_origins, signing_key
from tests.environments import environment_with

ROOT = Path(__file__).resolve().parent.parent.parent
MANAGE = [sys.executable, "manage.py", "checkpoints", "list", "/nowhere"]
DEMO = [sys.executable, "-m", "scripts.demo", "--clean"]
LONG = f"{'9' * 60}…{'9' * 20}"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("PORT", "abc", "PORT must be a whole number of 1 or more, not 'abc'."),
        ("PORT", "99999", "PORT must be a whole number of 65535 or less, not '99999'."),
        ("SCRATCH_DAYS", "9" * 4_000, f"SCRATCH_DAYS must be a whole number of 1 or more, not '{LONG}'."),
        ("PRICES_FILE", "/dev/zero", "PRICES_FILE must be the absolute path of a file, not '/dev/zero'."),
        ("RETENTION_JOB_DAYS", "1", "RETENTION_JOB_DAYS must be a whole number of 2 or more, not '1'."),
        ("PREWARM", "maybe", "PREWARM must be 0 or 1, not 'maybe'."),
        ("CHECKPOINT_ROOTS", "here", "CHECKPOINT_ROOTS must hold absolute folders, not 'here'."),
        ("ALLOWED_HOSTS", "a.org, b", "ALLOWED_HOSTS must hold host names such as example.org, not ' b'."),
        (
            "ALLOWED_ORIGINS",
            "https://a b.org",
            "ALLOWED_ORIGINS must hold origins such as https://example.org, not 'https://a b.org'.",
        ),
        ("AUDIT_FILE", "/audit.jsonl", "AUDIT_FILE needs AUDIT=1."),
        ("TEAMS_OF_GROUPS", "a=b", "TEAMS_OF_GROUPS needs OIDC_URL."),
        ("DATABASE_DIRECT_URL", "dbname=a", "DATABASE_DIRECT_URL needs DATABASE_URL."),
        ("TIME_ZONE", "Foo/Bar", "TIME_ZONE must be a time zone such as Europe/Paris, not 'Foo/Bar'."),
        ("TIME_ZONE", "/etc", "TIME_ZONE must be a time zone such as Europe/Paris, not '/etc'."),
        (
            "DATA_DIR",
            "/proc/a",
            "DATA_DIR: the folder /proc/a cannot be created (No such file or directory).",
        ),
    ],
)
@pytest.mark.parametrize("command", [MANAGE, DEMO])
def test_an_invalid_setting_ends_the_program_with_one_line(
    name: str, value: str, message: str, command: list[str]
) -> None:
    variables = environment_with() | {name: value}
    ended = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", f"{message}\n")


def test_a_data_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    variables = environment_with(tmp_path / "file")
    ended = subprocess.run(MANAGE, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr == f"DATA_DIR: the folder {tmp_path / 'file'} cannot be created (File exists).\n"


def test_an_invalid_setting_creates_no_data_folder(tmp_path: Path) -> None:
    variables = environment_with(tmp_path / "new/data") | {"PORT": "0"}
    ended = subprocess.run(MANAGE, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert ended.returncode == 1 and list(tmp_path.iterdir()) == []


def test_a_data_folder_that_cannot_be_created_leaves_nothing(tmp_path: Path) -> None:
    variables = environment_with(tmp_path / "new" / ("x" * 300))
    ended = subprocess.run(MANAGE, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert ended.returncode == 1 and ended.stderr.count("\n") == 1 and "File name too long" in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_empty_signing_key_is_refused_with_its_path(tmp_path: Path) -> None:
    # A power failure can leave the name of a new file without its content.
    (tmp_path / "secret_key").touch()
    with pytest.raises(InvalidSetting, match="secret_key cannot be used"):
        signing_key(tmp_path)
    assert (tmp_path / "secret_key").exists()


def test_a_signing_key_is_created_once_and_private(tmp_path: Path) -> None:
    first = signing_key(tmp_path)
    assert len(first) > 50
    assert signing_key(tmp_path) == first
    (path,) = tmp_path.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Return the patch of the environment, whose variables the reference does not list."""
    monkeypatch.setattr(environment, "SETTINGS", [])
    return monkeypatch


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "a-b.example.org", ".a.org", "x_y"])
def test_each_form_of_a_host_and_its_origin_is_accepted(own: pytest.MonkeyPatch, host: str) -> None:
    own.setenv("HOSTS", f"{host},b")
    assert env_hosts("HOSTS", "", "") == [host, "b"]
    own.setenv("ORIGINS", f"http://{host},https://{host}:8443")
    assert env_origins("ORIGINS", "", "", "") == [f"http://{host}", f"https://{host}:8443"]


@pytest.mark.parametrize(
    "origin",
    [
        *("https://*", "http://*:80", "https://me:pw@a.org", "https://a.org/", "https://a.org:0"),
        *(
            "https://b\u00fccher.example",
            "ftp://a.org",
            "a.org",
            "https://",
            "https://[1:2",
            "https://a.org:",
        ),
        "https://a.org:99999",
    ],
)
def test_an_origin_that_no_browser_names_is_refused(own: pytest.MonkeyPatch, origin: str) -> None:
    own.setenv("ORIGINS", origin)
    with pytest.raises(InvalidSetting, match="ORIGINS must hold origins"):
        env_origins("ORIGINS", "", "", "")


@pytest.mark.parametrize(
    "hosts", ["a, b", "https://a.org", "a.org:80", "a.org/", "*.a.org", ",", "b\u00fccher.org"]
)
def test_a_host_that_no_browser_names_is_refused(own: pytest.MonkeyPatch, hosts: str) -> None:
    own.setenv("HOSTS", hosts)
    with pytest.raises(InvalidSetting, match="HOSTS must hold host names"):
        env_hosts("HOSTS", "", "")
