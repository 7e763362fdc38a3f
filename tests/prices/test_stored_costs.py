from pathlib import Path
from typing import Any

import pytest

from tests.imported import imported_location
from tests.real_stores import copy_of
from viewer.host.locations.completing import describe_runs, locations_to_describe
from viewer.host.locations.importing import import_location
from viewer.models import Job, JobEvent, Location, Run
from viewer.records.prices import price_job

pytestmark = pytest.mark.django_db


def test_a_run_shows_its_tokens_cost_model_and_time(crew_location: Location) -> None:
    run = crew_location.runs.get()
    # Two calls on main, and two more on the fork.
    assert run.tokens == run.tokens_in + run.tokens_out == 20 * run.usage[0][1]
    assert (run.model, run.unpriced_calls) == ("gpt-4o-mini", 0)
    assert run.cost == pytest.approx(run.tokens_in * 0.15e-6 + run.tokens_out * 0.6e-6)


def test_the_time_between_a_run_and_its_fork_is_not_counted(crew_location: Location) -> None:
    run = crew_location.runs.get()
    assert run.first_at and run.last_at and (run.last_at - run.first_at).total_seconds() > 60
    assert run.seconds is not None and 1 < run.seconds < 6


def test_another_import_keeps_the_cost(crew_location: Location) -> None:
    before = crew_location.runs.values().get()
    assert not import_location(crew_location).is_news
    assert crew_location.runs.values().get() == before


def test_a_changed_price_changes_the_cost(crew_location: Location, tmp_path: Path, settings: Any) -> None:
    settings.PRICES_FILE = tmp_path / "prices.toml"
    settings.PRICES_FILE.write_text('["gpt-4o-mini"]\ninput = 1000000\noutput = 0\n')
    import_location(crew_location)
    revision = crew_location.revision
    assert locations_to_describe() == [crew_location] and describe_runs(crew_location)
    crew_location.refresh_from_db()
    assert crew_location.revision > revision and locations_to_describe() == []
    run = crew_location.runs.get()
    assert run.cost == run.tokens_in


def test_a_run_of_an_unknown_model_has_no_price(tmp_path: Path, settings: Any) -> None:
    settings.CHECKPOINT_ROOTS = [tmp_path]
    folder = copy_of("1.15.30/json", tmp_path)
    for path in folder.rglob("*.json"):
        path.write_text(path.read_text().replace("gpt-4o-mini", "my-own-model"))
    location = imported_location(folder)
    run = location.runs.get()
    assert run.cost is None and run.unpriced_calls == run.usage[0][1] > 0 and run.tokens > 0


def test_an_import_reads_again_what_the_version_before_stored(crew_location: Location) -> None:
    run = crew_location.runs.get()
    expected = run.tokens, run.cost, run.seconds
    Run.objects.update(usage=[], tokens_in=0, tokens_out=0, model="", cost=None, seconds=None)
    crew_location.checkpoints.update(fingerprint="")
    import_location(crew_location)
    describe_runs(crew_location)
    run.refresh_from_db()
    assert (run.tokens, run.cost, run.seconds) == expected


def test_a_job_stores_what_its_calls_used_by_model(crew_location: Location) -> None:
    job = Job.objects.create(kind="run", location=crew_location, tokens=45)
    calls = [("gpt-4o-mini", 10, 5), ("gpt-4o-mini", 10, 5), ("offline", 5, 10)]
    for number, (model, tokens_in, tokens_out) in enumerate(calls):
        used = {"model": model, "tokens": 15, "tokens_in": tokens_in, "tokens_out": tokens_out}
        JobEvent.objects.create(job=job, seq=number, kind="model_completed", at=job.created_at, data=used)
    price_job(job)
    job.refresh_from_db()
    assert (job.tokens_in, job.tokens_out, job.model) == (25, 20, "gpt-4o-mini, offline")
    assert job.unpriced_calls == 1 and job.cost == pytest.approx(20 * 0.15e-6 + 10 * 0.6e-6)
