"""Rows of the previous version, whose events and requests had other names."""

import json
import uuid
from pathlib import Path

import pytest
from django.utils import timezone

from tests.migrating import database_after, migrate_to_newest
from viewer.host.jobs.spool import event_from
from viewer.models import Job, JobEvent


@pytest.mark.django_db(transaction=True)
def test_stored_events_and_requests_get_their_present_names(tmp_path: Path) -> None:
    with database_after("0010_standard_names", tmp_path) as models:
        location = models.get_model("viewer", "Location").objects.create(path="/data/store", uid=uuid.uuid4())
        job = models.get_model("viewer", "Job").objects.create(
            kind="run", location=location, request={"options": {"preload": "parallel"}}
        )
        job.request["options"]["checkpoints"] = {"most": 2}
        job.plan = [{"unit": "a", "action": "again", "reason": "asked"}]
        job.save()
        models.get_model("viewer", "Question").objects.create(
            job=job, number=1, kind="flow_input", prompt="?"
        )
        limit = {"whose": "job", "measure": "steps", "most": 5}
        events = {
            "look": {"report": {"parts": [1]}},
            "preloaded": {"tokens": 3},
            "question": {"number": 1, "kind": "flow_input"},
            "limit": limit,
            "ended": {},
        }
        for seq, (kind, data) in enumerate(events.items(), 1):
            models.get_model("viewer", "JobEvent").objects.create(
                job=job, seq=seq, kind=kind, at=timezone.now(), data=data
            )
        migrate_to_newest()
        migrated = Job.objects.get()
        chosen = {"cache_warmup": "parallel", "checkpoints": {"max_checkpoints": 2}}
        assert migrated.request == {"options": chosen}
        assert migrated.plan == [{"unit": "a", "action": "again", "reason": "requested"}]
        assert migrated.questions.get().kind == "text_input"
        assert [(event.kind, event.data) for event in JobEvent.objects.all()] == [
            ("preflight", {"report": {"components": [1]}}),
            ("cache_warmed", {"tokens": 3}),
            ("question", {"number": 1, "kind": "text_input"}),
            ("limit", {"whose": "job", "measure": "steps", "max_amount": 5}),
            ("ended", {}),
        ]


@pytest.mark.parametrize(
    ("kind", "data", "present"),
    [
        ("question", {"kind": "flow_input"}, {"kind": "text_input"}),
        ("limit", {"measure": "steps", "most": 5}, {"measure": "steps", "max_amount": 5}),
    ],
)
def test_an_event_of_an_earlier_runner_is_read_by_its_present_names(
    kind: str, data: dict[str, object], present: dict[str, object]
) -> None:
    line = json.dumps({"seq": 1, "at": 0, "kind": kind, "data": data}).encode()
    event = event_from(line)
    assert event is not None and event["data"] == present
