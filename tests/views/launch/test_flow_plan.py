"""The plan of a flow names the methods that follow, in the browser and at the terminal."""

from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from tests.terminal import Terminal
from tests.views.forking import FLOW, filled, page
from viewer.models import Checkpoint, Job, Location, Project

SOURCE = """
from typing import Literal
from crewai.flow.flow import Flow, listen, router, start
class Desk(Flow):
    @start("retry")
    def outline(self): ...
    @router(outline)
    def judge(self) -> Literal["retry", "done"]: ...
    @listen("done")
    def publish(self): ...
    @listen(publish)
    def announce(self): ...
"""
THEN = "Then, depending on the router judge: retry → outline; done → publish."
STEPS = [
    ("outline", "kept", "may_repeat"),
    ("judge", "runs", "unfinished"),
    ("publish", "may", "routed"),
    ("announce", "may", "routed"),
]


@pytest.fixture
def entity(location: Location) -> dict[str, Any]:
    (Path(location.path).parent / "flow.py").write_text(SOURCE)
    return FLOW


def steps_in(plan: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(step["unit"], step["action"], step["reason"]) for step in plan]


def test_the_plan_of_the_form_lists_every_method_to_the_end(runner: Client, checkpoint: Checkpoint) -> None:
    for kind in ("fork", "resume"):
        text = runner.get(page(checkpoint, kind)).content.decode()
        assert THEN in text
        assert "finished; runs again if a router leads back to it" in text
        assert "depends on a router" in text
    assert runner.post(page(checkpoint), filled(runner, checkpoint)).status_code == 302
    job = Job.objects.get()
    assert steps_in(job.plan) == STEPS
    assert {step["task"]: step["action"] for step in job.request["steps"]}["publish"] == "may"


def test_the_plan_uses_the_chosen_entry_point(runner: Client, checkpoint: Checkpoint) -> None:
    project = Project.objects.get()
    (Path(project.folder) / "other.py").write_text(SOURCE.replace("publish", "print_it"))
    project.entry_points = [*project.entry_points, "other:Desk"]
    project.save()
    sent = filled(runner, checkpoint) | {"entry_point": "other:Desk"}
    answer = runner.post(reverse("fork-plan", args=[checkpoint.pk]), sent, headers={"HX-Request": "true"})
    assert "done → print_it" in answer.content.decode()


def test_unreadable_and_changed_source_is_reported(runner: Client, checkpoint: Checkpoint) -> None:
    source = Path(checkpoint.location.path).parent / "flow.py"
    source.write_text(SOURCE.replace("outline", "begin"))
    assert "has changed since this checkpoint" in runner.get(page(checkpoint)).content.decode()
    source.write_text("from crewai import Flow\nclass Desk(Flow): ...\n")
    assert "does not say which methods follow" in runner.get(page(checkpoint)).content.decode()


def test_the_plan_of_the_terminal_lists_every_method_and_records_nothing(
    checkpoint: Checkpoint, terminal: Terminal
) -> None:
    where = f"{checkpoint.location.path}#{checkpoint.checkpoint_id}"
    lines = terminal.text("resume", where, "--plan").splitlines()
    assert THEN in lines
    assert "3. publish: may run (depends on a router)" in lines
    document = terminal.document("fork", where, "--plan")
    assert steps_in(document["plan"]) == STEPS
    assert document["then"] == [
        {
            "router": "judge",
            "routes": [
                {"label": "retry", "units": ["outline"]},
                {"label": "done", "units": ["publish"]},
            ],
            "is_open": False,
        }
    ]
    assert not Job.objects.exists()
