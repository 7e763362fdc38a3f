"""Several runs are forked or resumed from one page, each at most once."""

import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from tests.forms.samples import task
from tests.views.forking import CREW, FLOW, SECRET, checked, create_location, stored
from viewer.host.locations.importing import import_location
from viewer.launching.bulk import MAX_BYTES, MAX_RUNS
from viewer.messages.message import UserMessage
from viewer.models import AcceptedEffect, Checkpoint, Job, Location, Project, Run, Sweep
from viewer.records.accounts import teammate
from viewer.web.launch.bulk_page import MAX_NAME

OTHER = {**CREW, "checkpoint_kickoff_event_id": "other", "id": "33333333-3333-4333-8333-333333333333"}


@pytest.fixture
def checkpoints(location: Location) -> list[Checkpoint]:
    """Return three checkpoints: two with the same plan, and one of a flow."""
    return [stored(location, CREW), stored(location, OTHER), stored(location, FLOW)]


def chosen(checkpoints: list[Checkpoint], **fields: Any) -> dict[str, Any]:
    return {"checkpoint": [str(one.pk) for one in checkpoints], **fields}


def sent(client: Client, kind: str, checkpoints: list[Checkpoint], **fields: Any) -> dict[str, Any]:
    """Return what a browser would send after the plan with these fields was shown."""
    text = client.get(reverse(f"bulk-{kind}"), chosen(checkpoints)).content.decode()
    key = re.search(r'name="key" value="([^"]+)"', text)
    assert key
    form = chosen(checkpoints, key=key[1], **fields)
    return form | {"shown": shown(client.post(reverse(f"bulk-{kind}-plan"), form).content.decode())}


def shown(text: str) -> str:
    found = re.search(r'name="shown" value="([^"]+)"', text)
    assert found
    return found[1]


def test_one_plan_groups_the_runs_and_starts_each_as_a_job(
    client: Client, person: User, checkpoints: list[Checkpoint]
) -> None:
    form = sent(client, "fork", checkpoints, part="value", name="topic", text="tea", again_stale="1")
    text = client.post(reverse("bulk-fork-plan"), form, headers={"HX-Request": "true"}).content.decode()
    assert "Start 3 forks" in text and text.count('class="bulk-group"') == 2
    answer = client.post(reverse("bulk-fork"), form)
    group = Sweep.objects.get()
    assert answer.status_code == 302 and answer["Location"] == group.get_absolute_url()
    assert (group.name, group.checkpoint, group.requested_by) == ("topic: tea", None, person)
    jobs = list(group.branches)
    assert [job.checkpoint for job in jobs] == checkpoints and {job.kind for job in jobs} == {"fork"}
    assert [job.branch for job in jobs] == ["topic-tea", "topic-tea-2", "topic-tea-3"]
    assert jobs[0].request["inputs"] == {"topic": "tea"} and jobs[2].request["state"] == {"topic": "tea"}
    assert [step["action"] for step in jobs[0].plan] == ["again", "again", "runs"]
    page = client.get(group.get_absolute_url()).content.decode()
    assert "topic-tea-3" in page and page.count("status-queued") == 3


def test_the_page_of_more_runs_needs_no_more_queries(
    client: Client, person: User, checkpoints: list[Checkpoint]
) -> None:
    counts = []
    for some in (checkpoints[:1], checkpoints[1:]):
        address = client.post(reverse("bulk-fork"), sent(client, "fork", some))["Location"]
        client.get(address)
        with CaptureQueriesContext(connection) as queries:
            client.get(address)
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_it_starts_once_however_often_it_is_sent(
    client: Client, person: User, checkpoints: list[Checkpoint]
) -> None:
    form, other_tab = (sent(client, "fork", checkpoints) for _tab in range(2))
    first = client.post(reverse("bulk-fork"), form)
    assert client.post(reverse("bulk-fork"), form)["Location"] == first["Location"]
    answer = client.post(reverse("bulk-fork"), other_tab)
    assert answer.status_code == 422 and "The plan has changed since it was shown" in answer.content.decode()
    assert Job.objects.count() == 3 and Sweep.objects.count() == 1


def test_resumes_in_two_tabs_start_once_even_after_the_first_has_ended(
    client: Client, person: User, checkpoints: list[Checkpoint]
) -> None:
    form, other_tab = (sent(client, "resume", checkpoints[:2]) for _tab in range(2))
    assert client.post(reverse("bulk-resume"), form).status_code == 302
    assert {job.kind for job in Job.objects.all()} == {"resume"}
    assert client.post(reverse("bulk-resume"), other_tab).status_code == 422
    for job in Job.objects.all():
        job.end(Job.Status.SUCCEEDED)
    assert client.post(reverse("bulk-resume"), other_tab).status_code == 422
    assert Job.objects.count() == 2


def test_what_cannot_start_is_listed_with_the_sentence_of_its_own_form(
    client: Client, person: User, location: Location, checkpoints: list[Checkpoint]
) -> None:
    done = stored(location, {**CREW, "tasks": [task(1, "The end")], "checkpoint_kickoff_event_id": "done"})
    Job.objects.create(
        kind="resume", location=location, run=checkpoints[0].run, branch="main", checkpoint=checkpoints[0]
    )
    text = client.get(reverse("bulk-resume"), chosen([*checkpoints, done])).content.decode()
    assert "Nothing is left to run: fork it, or choose an earlier checkpoint." in text
    assert "main" in text and reverse("resume", args=[done.pk]) in text
    assert not Sweep.objects.exists()


def test_a_value_that_a_run_lacks_or_that_is_not_of_its_type_refuses_only_that_run(
    client: Client, person: User, checkpoints: list[Checkpoint]
) -> None:
    form = sent(client, "fork", checkpoints, part="value", name="year", text="2030")
    text = client.post(reverse("bulk-fork-plan"), form).content.decode()
    assert "Start 2 forks" in text and "It has no input or state entry year." in text
    text = client.post(reverse("bulk-fork-plan"), form | {"text": "soon"}).content.decode()
    assert "This must be a whole number" in text and "None of the selected runs can start." in text
    assert client.post(reverse("bulk-fork"), form | {"text": "soon"}).status_code == 422
    assert client.post(reverse("bulk-fork"), form).status_code == 302
    assert [job.request["inputs"] for job in Job.objects.all()] == [{"year": 2030}] * 2


def test_losses_and_effects_that_nobody_accepted_are_refused_with_a_link_to_the_form(
    client: Client, person: User, checkpoints: list[Checkpoint]
) -> None:
    effect = {"kind": "module", "name": "tools.search", "detail": "a tool", "key": "a1", "digest": "a1"}
    checked(checkpoints[0], effects=[effect], is_complete=False)
    checked(checkpoints[1]).fail(UserMessage("preflight.failed"))
    text = client.get(reverse("bulk-fork"), chosen(checkpoints[:2])).content.decode()
    assert "The checkpoint has effects that nobody has accepted for this project." in text
    assert "the losses are unknown: accept starting anyway" in text
    assert all(reverse("fork", args=[one.pk]) in text for one in checkpoints[:2])
    form = sent(client, "fork", checkpoints[:2])
    assert client.post(reverse("bulk-fork"), form).status_code == 422
    assert not Job.objects.exists() and not AcceptedEffect.objects.exists()


def test_a_checkpoint_that_is_deleted_after_the_plan_was_shown_starts_nothing(
    client: Client, person: User, checkpoints: list[Checkpoint]
) -> None:
    form = sent(client, "fork", checkpoints)
    checkpoints[1].delete()
    answer = client.post(reverse("bulk-fork"), form)
    assert answer.status_code == 422 and "It was removed." in answer.content.decode()
    assert not Job.objects.exists()


def test_a_run_is_continued_from_its_newest_checkpoint_and_counts_once(
    client: Client, person: User, location: Location
) -> None:
    stored(location, CREW)
    newest = stored(location, {**CREW, "tasks": [task(1, "The research"), task(2, "More"), task(3)]})
    run = Run.objects.get()
    fields = {"run": [str(run.uid), str(run.uid)], "checkpoint": [str(newest.pk)]}
    text = client.get(reverse("bulk-resume"), fields).content.decode()
    assert "Resume 1 run" in text and newest.get_absolute_url().replace("&", "&amp;") in text


def test_too_many_runs_are_refused_before_any_is_planned(client: Client, person: User) -> None:
    text = client.get(reverse("bulk-fork"), {"checkpoint": [str(n) for n in range(MAX_RUNS + 1)]}).content
    assert f"At most {MAX_RUNS} can start at once." in text.decode()
    for hostile in ({"run": ["x", "' OR 1"]}, {"checkpoint": ["-1", "9" * 40, "\0"]}, {}):
        assert client.get(reverse("bulk-resume"), hostile).status_code == 200


def test_an_edit_without_its_type_starts_nothing(
    client: Client, person: User, checkpoints: list[Checkpoint]
) -> None:
    form = sent(client, "fork", checkpoints, name="topic", text="tea")
    answer = client.post(reverse("bulk-fork"), form)
    assert answer.status_code == 422 and not Job.objects.exists()
    assert 'id="part-error"' in answer.content.decode()


def test_the_name_of_a_role_may_be_as_long_as_the_name_of_the_group(
    client: Client, person: User, location: Location
) -> None:
    role = "r" * MAX_NAME
    one = stored(location, {**CREW, "agents": [{"id": "a", "role": role, "llm": "gpt-4o"}]})
    form = sent(client, "fork", [one], part="model", name=role, text="o3")
    assert client.post(reverse("bulk-fork"), form).status_code == 302
    # PostgreSQL refuses a longer one.
    assert len(Sweep.objects.get().name) == 300


def test_too_large_checkpoints_are_refused_before_any_is_decoded(
    client: Client, person: User, checkpoints: list[Checkpoint]
) -> None:
    Checkpoint.objects.update(size=MAX_BYTES // 2)
    all_three, two = (
        client.get(reverse("bulk-fork"), chosen(some)).content.decode()
        for some in (checkpoints, checkpoints[:2])
    )
    # The names of the values that the checkpoints hold are offered only if they were decoded.
    assert "can start at once." in all_three and '<option value="topic">' not in all_three
    assert "can start at once." not in two and '<option value="topic">' in two


def called(location: Location, number: int) -> Checkpoint:
    """Return a checkpoint of a new run, which is followed by one with a priced model call."""
    kickoff = {"checkpoint_kickoff_event_id": f"called {number}"}
    first = stored(location, {**CREW, **kickoff})
    call = {"type": "llm_call_completed", "event_id": "call", "task_id": "task-3", "model": "gpt-4o-mini"}
    usage = {"usage": {"prompt_tokens": 1_000_000, "completion_tokens": 0, "total_tokens": 1_000_000}}
    done = {**CREW, **kickoff, "tasks": [task(1, "The research"), task(2, "More"), task(3, "The end")]}
    stored(location, done, {"call": {"event": {**call, **usage}}})
    return first


def cost_in(client: Client, checkpoints: list[Checkpoint]) -> str:
    text = client.get(reverse("bulk-fork"), chosen(checkpoints)).content.decode()
    found = re.search(r"<dt>Model calls \(previous run\)</dt>\s*<dd[^>]*>(.*?)</dd>", text, re.DOTALL)
    assert found
    return " ".join(re.sub(r"<[^>]+>", "", found[1]).split())


def test_the_plan_shows_the_calls_of_the_previous_runs_and_their_price(
    client: Client, person: User, location: Location
) -> None:
    one, other = called(location, 1), called(location, 2)
    assert cost_in(client, [one]) == "1, about 1.0M tokens ($0.15)"
    assert cost_in(client, [one, other]) == "2, about 2.0M tokens ($0.30)"


def test_recorded_answers_cost_nothing(client: Client, person: User, location: Location) -> None:
    sent = chosen([called(location, 1)]) | {"model_calls": "recorded"}
    assert "(previous run)" not in client.post(reverse("bulk-fork-plan"), sent).content.decode()


def test_what_is_decoded_for_the_cost_counts_towards_the_same_bound(
    client: Client, person: User, location: Location
) -> None:
    one = called(location, 1)
    Checkpoint.objects.filter(pk=one.pk).update(size=MAX_BYTES - 1)
    assert cost_in(client, [one]) == "unknown"


@pytest.mark.parametrize("kind", ["fork", "resume"])
def test_another_run_needs_few_more_queries(
    client: Client, person: User, location: Location, checkpoints: list[Checkpoint], kind: str
) -> None:
    checkpoints.append(stored(location, {**CREW, "checkpoint_kickoff_event_id": "fourth"}))
    client.get(reverse(f"bulk-{kind}"), chosen(checkpoints))
    counts = []
    for name, some in [("checkpoint", 1), ("checkpoint", 4), ("run", 1), ("run", 4)]:
        values = [str(one.pk if name == "checkpoint" else one.run.uid) for one in checkpoints[:some]]
        with CaptureQueriesContext(connection) as queries:
            client.get(reverse(f"bulk-{kind}"), {name: values})
        counts.append(len(queries))
    # Tool calls that are on record, the quotas of teams, whether the host answers, the preflight check, and
    # the projects whose isolated runs may have written what is read.
    assert counts[1] - counts[0] <= 3 * 13 and counts[3] - counts[2] <= 3 * 13, counts


def test_a_branch_named_like_the_keys_of_drafts_is_continued(
    client: Client, person: User, location: Location
) -> None:
    row = stored(location, CREW)
    (Path(location.path) / "main").rename(Path(location.path) / "scratch")
    import_location(location)
    run = Checkpoint.objects.get(source_key__startswith="scratch/").run
    text = client.get(reverse("bulk-resume"), {"run": str(run.uid)}).content.decode()
    assert "Resume 1 run" in text and "No checkpoints yet" not in text and row.run_id


def test_locations_of_different_projects_start_together_and_a_secret_is_in_no_name(
    client: Client, person: User, checkpoints: list[Checkpoint], tmp_path: Any
) -> None:
    other = stored(create_location(tmp_path / "other"), CREW)
    unconfirmed = stored(create_location(tmp_path / "unconfirmed"), CREW)
    Project.objects.filter(locations=unconfirmed.location).update(confirmed_at=None)
    both = [checkpoints[0], other, unconfirmed]
    form = sent(client, "fork", both, part="value", name="api_key", text=SECRET)
    text = client.post(reverse("bulk-fork-plan"), form).content.decode()
    assert "is not confirmed" in text and "Start 2 forks" in text
    assert client.post(reverse("bulk-fork"), form).status_code == 302
    group = Sweep.objects.get()
    jobs = list(group.branches)
    assert {job.project_id for job in jobs} == {one.location.project_id for one in both[:2]}
    page = client.get(group.get_absolute_url()).content.decode()
    kept = [page, group.name, *(f"{job.branch} {job.variation} {job.plan}" for job in jobs)]
    assert not [one for one in kept if SECRET in one]


def test_a_secret_of_the_project_that_is_typed_as_a_value_is_in_no_name(
    client: Client, person: User, checkpoints: list[Checkpoint], tmp_path: Path
) -> None:
    # Only the project's environment file identifies this secret. Once shortened, it would not be found.
    secret = "correct-horse-battery-staple-" * 4
    variables = tmp_path / "project.env"
    variables.write_text(f"DESK_PASSWORD={secret}\n")
    Project.objects.update(environment_file=str(variables))
    form = sent(client, "fork", checkpoints, part="value", name="topic", text=secret)
    assert client.post(reverse("bulk-fork"), form).status_code == 302
    group = Sweep.objects.get()
    assert group.name.startswith("topic: ")
    assert not [one for one in (group.name, *(job.variation for job in group.branches)) if "horse" in one]


def test_reached_limits_hold_back_the_rest(
    client: Client, person: User, checkpoints: list[Checkpoint]
) -> None:
    form = sent(client, "fork", checkpoints, limit_tokens="100")
    client.post(reverse("bulk-fork"), form)
    group = Sweep.objects.get()
    assert group.limits == {"tokens": 100}
    first = group.branches[0]
    first.claim()
    first.record_usage(tokens=150, steps=1)
    first.end(Job.Status.SUCCEEDED)
    page = client.get(group.get_absolute_url()).content.decode()
    assert "the sweep&#x27;s limit of 100 tokens is reached" in page


def test_people_who_may_only_look_see_and_start_nothing(
    client: Client, db: None, checkpoints: list[Checkpoint]
) -> None:
    client.force_login(teammate("bob", "view"))
    form = chosen(checkpoints, key="6f1c3f2e-9a53-4d6e-9a1f-0a4b54a1c7de")
    for kind in ("fork", "resume"):
        assert client.get(reverse(f"bulk-{kind}"), form).status_code == 403
        assert client.post(reverse(f"bulk-{kind}"), form).status_code == 403
        assert client.post(reverse(f"bulk-{kind}-plan"), form).status_code == 403
    for address in (reverse("home"), checkpoints[0].location.get_absolute_url()):
        assert "bulk" not in client.get(address).content.decode()
    assert not Job.objects.exists()
