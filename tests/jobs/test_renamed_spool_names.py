"""Rows of the previous version, whose events and requests had other names."""

import uuid

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from viewer.models import Job, JobEvent


@pytest.mark.django_db(transaction=True)
def test_stored_events_and_requests_get_their_present_names() -> None:
    executor = MigrationExecutor(connection)
    newest = executor.loader.graph.leaf_nodes()
    executor.migrate([("viewer", "0010_standard_names")])
    before = executor.loader.project_state([("viewer", "0010_standard_names")]).apps
    location = before.get_model("viewer", "Location").objects.create(path="/data/store", uid=uuid.uuid4())
    job = before.get_model("viewer", "Job").objects.create(
        kind="run", location=location, request={"options": {"preload": "parallel"}}
    )
    events = {"look": {"report": {"parts": [1]}}, "preloaded": {"tokens": 3}, "ended": {}}
    for seq, (kind, data) in enumerate(events.items(), 1):
        before.get_model("viewer", "JobEvent").objects.create(
            job=job, seq=seq, kind=kind, at=timezone.now(), data=data
        )
    MigrationExecutor(connection).migrate(newest)
    assert Job.objects.get().request == {"options": {"cache_warmup": "parallel"}}
    assert [(event.kind, event.data) for event in JobEvent.objects.all()] == [
        ("preflight", {"report": {"components": [1]}}),
        ("cache_warmed", {"tokens": 3}),
        ("ended", {}),
    ]
