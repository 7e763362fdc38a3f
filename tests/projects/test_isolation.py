"""An admin of all locations of a project chooses how runs are isolated, and jobs show what was in force."""

import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.terminal import Terminal
from viewer.host_requests import JobRefused
from viewer.models import Host, Job, Location, Project
from viewer.records.isolation import ALLOWED_HOSTS, without_noted

LAUNCHERS = {"process": "", "systemd": "Failed to connect to bus", "bubblewrap": "", "landlock": ""}
ASKED = {"launcher": "landlock", "network": "none", "memory_mb": 500, "read": ["/srv/models"]}


@pytest.fixture
def project(crew_location: Location, tmp_path: Path) -> Project:
    """Return the project of the location."""
    crew_location.project = Project.objects.create(folder=str(tmp_path), interpreter="/usr/bin/python3")
    crew_location.save()
    Host.objects.update(launchers=LAUNCHERS, version="0.2.0")
    return crew_location.project


def test_the_page_saves_what_makes_sense(runner: Client, crew_location: Location, project: Project) -> None:
    shown, address = (reverse(name, args=[crew_location.uid]) for name in ("project", "project-isolation"))
    page = runner.get(shown).content.decode()
    assert "systemd scope does not work on this host: Failed to connect to bus" in page
    seen = re.findall(r'isolation/.*?name="seen" value="([^"]*)"', page, re.DOTALL)[0]
    sent = {"launcher": "process", "network": "none", "seen": seen}
    refused = runner.post(address, sent)
    assert refused.status_code == 422 and "A run without network needs" in refused.content.decode()
    sent |= {"launcher": "landlock", "memory_mb": "500", "read": "/srv/models\r\n\r\n"}
    assert runner.post(address, sent | {"memory_mb": "5"}).status_code == 422
    assert runner.post(address, sent).status_code == 302
    project.refresh_from_db()
    noted = {name: project.isolation.pop(name) for name in ("trusted", "trusted_write")}
    assert project.isolation == ASKED and project.folder in noted["trusted"]
    assert noted["trusted_write"] == [project.folder]
    # Somebody else's form was older.
    assert runner.post(address, sent | {"memory_mb": "900"}).status_code == 422
    # What was noted is no change of a person.
    project.change_isolation({**ASKED, "trusted": ["/usr"]})
    again = runner.get(shown).content.decode()
    assert "/srv/models" in again and 'value="500"' in again
    seen = re.findall(r'isolation/.*?name="seen" value="([^"]*)"', again, re.DOTALL)[0]
    assert runner.post(address, sent | {"seen": seen}).status_code == 302
    project.refresh_from_db()
    assert project.isolation == {**ASKED, **noted}


def test_the_terminal_changes_one_thing_at_a_time(
    terminal: Terminal, crew_location: Location, project: Project
) -> None:
    path = crew_location.path
    assert terminal.document("isolation", path)["isolation"] == {}
    terminal.document("isolation", path, "--launcher", "bubblewrap", "--memory-mb", "500")
    document = terminal.document("isolation", path, "--network", "none", "--read", "/srv/models")
    project.refresh_from_db()
    assert document["isolation"] == {**ASKED, "launcher": "bubblewrap"}
    assert without_noted(project.isolation) == document["isolation"]
    assert document["launchers"] == LAUNCHERS
    assert "needs the launcher" in str(terminal.refused("isolation", path, "--launcher", "process"))
    terminal.document("isolation", path, "--off")
    project.refresh_from_db()
    assert project.isolation == {}


def refuse(_request: Any) -> None:
    raise JobRefused("isolation.not_probed", launcher="bubblewrap")


def test_the_page_saves_allowed_hosts(
    runner: Client, crew_location: Location, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, address = (reverse(name, args=[crew_location.uid]) for name in ("project", "project-isolation"))
    page = runner.get(shown).content.decode()
    seen = re.findall(r'isolation/.*?name="seen" value="([^"]*)"', page, re.DOTALL)[0]
    sent = {"launcher": "bubblewrap", "network": "hosts", "seen": seen}
    for allow, text in (
        ("", "Name at least one allowed host"),
        ("api.openai.com\r\n*.example.org", "“*.example.org” cannot be an allowed host"),
        ("a b", "“a b” cannot be an allowed host"),
        ("\r\n".join(f"a{number}" for number in range(101)), "There are more than 100 allowed hosts"),
    ):
        refused = runner.post(address, sent | {"allow": allow})
        assert refused.status_code == 422 and text in refused.content.decode()
    assert runner.post(address, sent | {"launcher": "landlock", "allow": "a"}).status_code == 422
    with monkeypatch.context() as patch:
        patch.setattr("viewer.records.isolation.ask", refuse)
        refused = runner.post(address, sent | {"allow": "a.example.org"})
    assert refused.status_code == 422 and "a.example.org" in refused.content.decode()
    allow = "API.openai.com\r\n\r\ndb.example.org.:5432\r\napi.openai.com:443\r\n"
    assert runner.post(address, sent | {"allow": allow}).status_code == 302
    project.refresh_from_db()
    hosts = ["api.openai.com:443", "db.example.org:5432"]
    asked = {"launcher": "bubblewrap", "network": "hosts", "allow": hosts}
    assert without_noted(project.isolation) == asked
    assert "\n".join(hosts) in runner.get(shown).content.decode()
    # What a run will have is shown before its start.
    project.confirmed_at, project.entry_points = timezone.now(), ["press:make_crew"]
    project.save()
    address = reverse("new-run", args=[crew_location.uid], query={"entry_point": "press:make_crew"})
    page = runner.get(address).content.decode()
    assert "Allowed hosts: api.openai.com:443, db.example.org:5432" in page


def test_the_terminal_allows_hosts(terminal: Terminal, crew_location: Location, project: Project) -> None:
    path = crew_location.path
    assert "only for the network" in str(terminal.refused("isolation", path, "--allow", "a"))
    terminal.document("isolation", path, "--launcher", "bubblewrap", "--network", "hosts", "--allow", "a:1")
    found = terminal.document("isolation", path, "--allow", "B.example", "--allow", "db:5432")["isolation"]
    assert found["allow"] == ["b.example:443", "db:5432"]
    assert "cannot be an allowed host" in str(terminal.refused("isolation", path, "--allow", "a/b"))
    assert "need the launcher bubblewrap" in str(
        terminal.refused("isolation", path, "--launcher", "landlock")
    )
    assert "allow" not in terminal.document("isolation", path, "--network", "none")["isolation"]
    project.refresh_from_db()
    assert (project.isolation["launcher"], project.isolation["network"]) == ("bubblewrap", "none")


def test_what_runs_may_open_is_shown(
    runner: Client, terminal: Terminal, crew_location: Location, project: Project, tmp_path: Path
) -> None:
    models, results, link = (tmp_path.parent / name for name in ("models", "results", "link"))
    models.mkdir()
    results.mkdir()
    link.symlink_to(results)
    shown, path = reverse("project", args=[crew_location.uid]), crew_location.path
    assert "Folders that its runs may open" not in runner.get(shown).content.decode()
    assert terminal.document("isolation", path)["open"] == {"read": [], "write": []}
    further = ("--read", str(models), "--write", str(link))
    found = terminal.document("isolation", path, "--launcher", "bubblewrap", *further)["open"]
    assert str(models) in found["read"] and not {*found["read"]} & {*found["write"]}
    # A link leads to what may be written as well.
    assert found["write"] == sorted([project.folder, str(link), str(results)])
    text = terminal.text("isolation", path)
    assert f"May be read: {models}\n" in text and f"May be written: {results}\n" in text
    listed = runner.get(shown).content.decode().partition("Folders that its runs may open: ")[2]
    assert listed.startswith(str(len(found["read"]) + 3))
    assert all(path in listed for path in (*found["read"], *found["write"]))
    # Of a project that was saved by an older version, nothing says what may be written.
    project.refresh_from_db()
    del project.isolation["trusted_write"]
    project.change_isolation(project.isolation)
    assert terminal.document("isolation", path)["open"]["write"] == []
    assert f"May be opened: {results}\n" in terminal.text("isolation", path)
    assert terminal.document("isolation", path, "--off")["open"] == {"read": [], "write": []}


def test_what_the_host_lacks_is_said_when_it_is_saved(
    runner: Client, terminal: Terminal, crew_location: Location, project: Project
) -> None:
    reason = "setns: Operation not permitted"
    Host.objects.update(launchers=LAUNCHERS | {ALLOWED_HOSTS: reason})
    sentence = f"Runs cannot be limited to allowed hosts on this host: {reason}"
    shown, address = (reverse(name, args=[crew_location.uid]) for name in ("project", "project-isolation"))
    page = runner.get(shown).content.decode()
    assert sentence in page and sentence in runner.get(reverse("hosts")).content.decode()
    seen = re.findall(r'isolation/.*?name="seen" value="([^"]*)"', page, re.DOTALL)[0]
    sent = {"launcher": "bubblewrap", "network": "hosts", "allow": "a.example", "seen": seen}
    saved = runner.post(address, sent, follow=True).content.decode()
    assert "Isolation saved." in saved and f"{sentence}. Choose another network" in saved
    path = crew_location.path
    document = terminal.document("isolation", path)
    assert document["warnings"] == [f"{sentence}. Choose another network on the project's page."]
    assert document["launchers"][ALLOWED_HOSTS] == reason
    assert sentence in terminal.text("isolation", path)
    assert terminal.document("isolation", path, "--network", "none")["warnings"] == []
    # A launcher that does not work is said likewise.
    warnings = terminal.document("isolation", path, "--off", "--launcher", "systemd")["warnings"]
    assert "systemd does not work on this host: Failed to connect to bus" in warnings[0]


def test_a_job_and_a_host_show_what_was_had(
    runner: Client, crew_location: Location, project: Project
) -> None:
    in_force = {
        "launcher": "landlock",
        "landlock": 7,
        "sandboxed": True,
        "network": "none",
        "limits": {"memory_mb": 500, "open_files": 64},
        "enforced_by": {"memory_mb": "supervisor", "open_files": "process"},
    }
    job = Job.objects.create(kind="fork", location=crew_location, project=project, isolation=in_force)
    page = runner.get(job.get_absolute_url()).content.decode()
    for text in ("Landlock (version 7)", "No network.", "Memory (MB): 500 (measured)", "64 (by the kernel)"):
        assert text in page
    in_force = {
        "launcher": "bubblewrap",
        "sandboxed": True,
        "network": "hosts",
        "hosts": ["a.example:443", "b:1"],
    }
    job = Job.objects.create(kind="fork", location=crew_location, project=project, isolation=in_force)
    assert (
        "No network but these hosts: a.example:443, b:1"
        in runner.get(job.get_absolute_url()).content.decode()
    )
    assert "Launchers: Process, bubblewrap, Landlock" in runner.get(reverse("hosts")).content.decode()
