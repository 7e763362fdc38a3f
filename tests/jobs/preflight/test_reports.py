"""The project's code may change the report of a check. Each report is shown, or refused with the reason."""

import json
from pathlib import Path
from typing import Any, get_type_hints

import hypothesis
import pytest
from django.utils import timezone
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from pytest_django import Settings

from tests.jobs.conftest import FAKE_RUNNERS
from viewer.cli.starting import outcome_of
from viewer.engines import all_engines
from viewer.engines.runner_protocol import Report
from viewer.host.jobs.events import redactor_of, storable
from viewer.host.jobs.preflight import _without_secrets, run_check
from viewer.launching.preview import _read
from viewer.launching.refusals import read_findings
from viewer.models import Checkpoint, Job, PreflightCheck, Project
from viewer.presentation.run.graph import plain_graph_of

EFFECT = {"key": "a", "kind": "module", "name": "lib"}
PART = {"what": "tools", "name": "search", "fate": "lost"}


@pytest.mark.parametrize(
    "report",
    [
        *(7, [], "done", {"effects": 1}, {"effects": [1]}, {"effects": [{**EFFECT, "key": 1}]}),
        *({"effects": [{"key": "a"}]}, {"effects": None}, {"is_complete": "no"}, {"components": {"a": 1}}),
        *({"components": [{**PART, "task": "1"}]}, {"questions": [{"kind": "task"}]}, {"blocks": ["no"]}),
        *({"notes": "none"}, {"graph": {"nodes": [1]}}, {"graph": {"edges": [["a", "b"]]}}),
        *({"next": "a"}, {"next_by_node": [{"node": "a", "after": ["b"]}]}, {"tools": [{"node": "a"}]}),
    ],
)
def test_a_malformed_report_is_refused(
    report: Any, checkpoint: Checkpoint, project: Project, settings: Settings
) -> None:
    settings.JOB_RUNNERS = {"crewai": FAKE_RUNNERS / "output/writes_lines.py"}
    event = {"seq": 2, "at": 1, "kind": "preflight", "data": {"report": report}}
    Path(project.folder, "lines").write_text(f"{json.dumps(event)}\n")
    check = PreflightCheck.objects.create(checkpoint=checkpoint, project=project, fingerprint="1")
    run_check(check)
    assert check.status == PreflightCheck.Status.FAILED
    assert check.error is not None
    assert check.error.code == "preflight.malformed_report"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)
# Of dictionaries with any values: messages, and what describes a graph.
OPEN = st.lists(
    st.dictionaries(st.sampled_from(["name", "type", "reducer", "default", "code", "values"]), VALUES)
)
REPORTS = st.fixed_dictionaries(
    {},
    optional={
        name: OPEN if "Any" in str(kind) else st.from_type(kind)
        for name, kind in get_type_hints(Report).items()
    },
)


@given(report=REPORTS)
@hypothesis.settings(
    max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
def test_every_report_of_the_right_shape_is_read(
    checkpoint: Checkpoint, project: Project, report: Report
) -> None:
    stored = json.loads(json.dumps(_without_secrets(storable(report), redactor_of(project))))
    check = PreflightCheck(
        checkpoint=checkpoint, project=project, report=stored, status=PreflightCheck.Status.DONE
    )
    findings = read_findings(check, {}, "")
    assert len(findings.blocks) == len(stored["blocks"])
    assert len(findings.notes) == len(stored.get("notes", []))
    assert findings.mark
    assert "matches" not in findings.options
    assert all(refusal.message for refusal in findings.refusals if refusal.message not in findings.blocks)
    for engine in all_engines():
        assert engine.schema(None, stored) is not None
        assert len(engine.tools_of_code(stored, is_edited=True)) <= sum(
            len(one["tools"]) for one in stored.get("tools", [])
        )
        engine.unmatched(stored, {})
    for one in stored.get("next_by_node", []):
        assert list(_read(one).following) == one.get("next", [])
    plain_graph_of(checkpoint.run, checkpoint, stored.get("graph"))


@pytest.mark.parametrize(
    "report", [7, [], {"components": [{"name": "search"}]}, {"components": "ab"}, {"components": [5]}]
)
def test_a_malformed_report_of_a_run_is_left_out_of_its_outcome(
    checkpoint: Checkpoint, project: Project, report: Any
) -> None:
    job = Job.objects.create(kind=Job.Kind.FORK, location=checkpoint.location, project=project, branch="b")
    job.events.create(seq=1, kind="preflight", at=timezone.now(), data={"report": report})
    output = outcome_of(job, [], waits=False)
    assert output.document["preflight"] is None
    assert any(str(job.pk) in line for line in output.lines)
