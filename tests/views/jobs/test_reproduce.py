"""A job as a command and as a script, without its secrets."""

import ast
import json
import re
import shlex
from html import unescape
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from tests.views.forking import CREW, SECRET, filled, page
from viewer.models import Checkpoint, Job
from viewer.presentation.jobs.pages import command_of, reproduction_of

OTHER_SECRET = SECRET.replace("canary", "parrot")
pytestmark = pytest.mark.usefixtures("check")


@pytest.fixture
def job(runner: Client, checkpoint: Checkpoint) -> Job:
    """A fork with an edited input, an edited output and a secret."""
    tasks: list[dict[str, Any]] = CREW["tasks"]
    form = filled(runner, checkpoint, input__year="2031", input__api_key=OTHER_SECRET, branch="later")
    form[f"output:{tasks[0]['id']}"] = "Another\nresearch, 'quoted'"
    response = runner.post(page(checkpoint), form)
    assert response.status_code == 302, response.content.decode()[:3000]
    return Job.objects.get()


def shown(client: Client, job: Job, part: str) -> str:
    """The text of a part of the job's page."""
    html = client.get(job.get_absolute_url()).content.decode()
    found = re.search(rf'id="reproduce-{part}"[^>]*>(.*?)</pre>', html, re.S)
    assert found
    return unescape(found[1])


def test_the_command_repeats_the_plan_of_the_job(client: Client, job: Job) -> None:
    words = shlex.split(shown(client, job, "command"))
    assert words[:2] == ["forkline", "fork"]
    out = StringIO()
    call_command("checkpoints", *words[1:], "--plan", "--json", stdout=out)
    planned = json.loads(out.getvalue())
    assert [(step["unit"], step["action"]) for step in planned["plan"]] == [
        (step["unit"], step["action"]) for step in job.plan
    ]


def test_the_command_repeats_what_was_chosen_for_units_and_tools(job: Job) -> None:
    job.plan[0] |= {"reason": "requested"}
    job.plan[1] |= {"reason": "held"}
    job.request["options"]["tools"] = {"choices": {"send_mail": "refuse"}, "recorded": [], "dry_run": True}
    job.request["options"]["model_calls"] = {"recorded": [], "in_order": True}
    what = reproduction_of(job)
    assert what
    words = shlex.split(command_of(job, what))
    pairs = list(pairwise(words))
    assert ("--model-calls", "in-order") in pairs
    assert ("--again", job.plan[0]["unit"]) in pairs and ("--keep", job.plan[1]["unit"]) in pairs
    assert ("--tool", "send_mail=refuse") in pairs and "--dry-run" in words


def test_the_command_sends_no_file_that_an_output_names(
    runner: Client, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    file = tmp_path / "key.pem"
    file.write_text("of this machine")
    form = filled(runner, checkpoint, branch="named")
    form[f"output:{CREW['tasks'][0]['id']}"] = f"@{file}"
    assert runner.post(page(checkpoint), form).status_code == 302
    job = Job.objects.get()
    what = reproduction_of(job)
    assert what
    _program, *words = shlex.split(command_of(job, what))
    assert call_command("checkpoints", *words, stdout=StringIO()) is None
    repeated = Job.objects.exclude(pk=job.pk).get()
    assert repeated.request["outputs"] == job.request["outputs"]


def test_the_command_runs_the_commit_that_the_job_ran(job: Job) -> None:
    def words() -> list[str]:
        what = reproduction_of(job)
        assert what
        return shlex.split(command_of(job, what))

    assert "--code" not in words()
    job.request["options"]["commit"] = "1" * 40
    assert ("--code", "recorded") in pairwise(words())


def test_the_script_holds_the_edits_and_parses(client: Client, job: Job) -> None:
    script = shown(client, job, "script")
    ast.parse(script)
    assert "Crew" in script and "2031" in script and "Another" in script


def test_no_secret_is_in_the_page(client: Client, job: Job) -> None:
    html = client.get(job.get_absolute_url()).content.decode()
    assert OTHER_SECRET not in html and SECRET not in html
    assert "Not stored, since they may be secrets: api_key" in html
    job.end(Job.Status.FAILED)
    what = reproduction_of(Job.objects.get())
    assert what and OTHER_SECRET not in command_of(job, what) and what.inputs == {"year": 2031}


def test_a_job_whose_checkpoint_was_removed_cannot_be_reproduced(client: Client, job: Job) -> None:
    Job.objects.update(checkpoint=None)
    assert "reproduce-command" not in client.get(job.get_absolute_url()).content.decode()
