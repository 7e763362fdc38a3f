"""Examples of the documents, for the OpenAPI document. A test compares their keys with those of real ones."""

from typing import Any

LOCATION: dict[str, Any] = {
    "key": "0b6f1c1e-6c0f-5f6c-9a6e-3f1d5c1b2a90",
    "location": "/srv/newsroom/.checkpoints",
    "host": "worker-1",
    "engine": "crewai",
    "store_kind": "json",
    "imported_at": "2026-03-14T09:26:53+00:00",
    "error": "",
}
LOCATIONS = {"locations": [LOCATION], "next": None}
LISTED_RUN: dict[str, Any] = {
    "id": "3f8a1c",
    "key": "a5f0c3de-8d0b-5a52-8e0f-0d6c2b7a1f44",
    "entity": "crew",
    "name": "Newsroom",
    "status": None,
}
RUNS = {"runs": [LISTED_RUN], "next": "41"}
TARGET = "/srv/newsroom/.checkpoints#20260314T092653_c1d2"
RUN = {
    **LISTED_RUN,
    "branches": [
        {"name": "main", "head": "20260314T092653_c1d2", "target": TARGET, "status": "completed"},
    ],
}
LISTED_CHECKPOINT: dict[str, Any] = {
    "id": "20260314T092653_c1d2",
    "key": 1207,
    "target": TARGET,
    "parent_id": "20260314T092611_9b0e",
    "edge": "recorded",
    "branch": "main",
    "recorded_branch": "main",
    "trigger": "task_completed",
    "created_at": "2026-03-14T09:26:53+00:00",
    "entity": "crew",
    "name": "Newsroom",
    "units_done": 2,
    "units_total": 3,
    "event_count": 18,
    "tokens": 1840,
    "size": 52310,
    "state": "present",
}
CHECKPOINTS = {"checkpoints": [LISTED_CHECKPOINT], "next": None}
CHECKPOINT = {**LISTED_CHECKPOINT, "inputs": {"topic": "tea"}}
COMPARISON = {
    "a": LISTED_CHECKPOINT,
    "b": {**LISTED_CHECKPOINT, "id": "20260314T093002_77aa", "key": 1211, "branch": "fork/tea"},
    "common_ancestor": "20260314T092611_9b0e",
    "differs": True,
    "rows": [
        {"section": "inputs", "name": "audience", "same": True},
        {"section": "inputs", "name": "topic", "same": False, "a": "tea", "b": "coffee"},
    ],
}
RESULTS = {
    "count": 1,
    "is_more_than_counted": False,
    "is_fully_indexed": True,
    "results": [
        {
            "location": "/srv/newsroom/.checkpoints",
            "run": "3f8a1c",
            "checkpoint": LISTED_CHECKPOINT,
            "kind": "output",
            "unit": "Research",
            "agent": "Researcher",
            "model": None,
            "more_checkpoints": 0,
            "excerpt": "Tea grows in the hills",
            "address": "/runs/a5f0c3de-8d0b-5a52-8e0f-0d6c2b7a1f44/?at=20260314T092653_c1d2",
        }
    ],
    "next": None,
}
LISTED_JOB: dict[str, Any] = {
    "job": "6f1e2d3c-4b5a-4978-8695-a4b3c2d1e0f9",
    "kind": "fork",
    "status": "succeeded",
    "branch": "fork/tea",
    "location": "/srv/newsroom/.checkpoints",
    "run": "a5f0c3de-8d0b-5a52-8e0f-0d6c2b7a1f44",
    "checkpoint": 1207,
    "sweep": None,
    "requested_by": "ada",
    "created_at": "2026-03-14T09:29:01+00:00",
    "started_at": "2026-03-14T09:29:02+00:00",
    "ended_at": "2026-03-14T09:30:11+00:00",
    "tokens": 920,
    "error": "",
}
JOBS = {"jobs": [LISTED_JOB], "next": None}
JOB = {
    **LISTED_JOB,
    "checkpoints": [LISTED_CHECKPOINT],
    "result": "Tea grows in the hills.",
    "warnings": [],
    "checkpoints_failed": 0,
    "plan": [],
    "preflight": None,
    "effects": [],
    "start_at": None,
    "limits": {},
    "limit_hit": "",
    "isolation": {},
    "questions": [],
    "hints": [],
}
EVENTS = {
    "job": "6f1e2d3c-4b5a-4978-8695-a4b3c2d1e0f9",
    "branch": "fork/tea",
    "status": "running",
    "is_over": False,
    "events": [
        {
            "seq": 7,
            "at": "2026-03-14T09:29:03+00:00",
            "kind": "task_started",
            "text": "Task started: Research",
            "agent": "Researcher",
        }
    ],
    "next": 7,
}
QUESTION: dict[str, Any] = {
    "job": "6f1e2d3c-4b5a-4978-8695-a4b3c2d1e0f9",
    "number": 1,
    "kind": "human_input",
    "prompt": "Is this good enough?",
    "context": {},
    "asked_at": "2026-03-14T09:29:40+00:00",
}
QUESTIONS = {"questions": [QUESTION]}
SWEEP = {
    "group": "b1c2d3e4-f5a6-4b7c-8d9e-0f1a2b3c4d5e",
    "name": "tone",
    "limits": {},
    "branches": [{"variation": "topic: tea", **LISTED_JOB, "branch": "tone/1"}],
}
CANCELLED = {"job": "6f1e2d3c-4b5a-4978-8695-a4b3c2d1e0f9", "status": "cancelled", "cancelled": True}
ANSWERED = {**QUESTION, "answered": True, "answer": "Shorter, please."}
NOTED = {
    "run": "3f8a1c",
    "branch": None,
    "checkpoint": "20260314T092653_c1d2",
    "name": "Before the edit",
    "starred": False,
    "labels": ["tea"],
    "note": "The sources are **good**.",
}
STARTED = {
    name: JOB[name] for name in ("job", "status", "branch", "checkpoints", "result", "plan", "questions")
}
EXPORTED = {"run": "3f8a1c", "format": "markdown", "text": "# Newsroom"}
COMMENT = {"id": 4, "by": "ada", "at": "2026-03-14T09:40:00+00:00", "text": "Greener?", "replies": []}
CALL = {"name": "0123456789ab", "model": "gpt-4o-mini", "agent": "Researcher", "cost": 0.002}
GROUP = {"group": "b1c2d3e4-f5a6-4b7c-8d9e-0f1a2b3c4d5e", "limits": {}, "error": ""}
PRUNABLE = {"location": "/srv/newsroom/.checkpoints", "digest": "5f1c", "checkpoints": 12, "bytes": 52310}
KEYS = {"location": "/srv/newsroom/.checkpoints", "read": 40, "checkpoints": 40, "keys": []}
PLACE = {"location": "/srv/newsroom/.checkpoints"}
# Of each command: a body, and the document that answers it.
COMMANDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "list": (PLACE, {**PLACE, "store_kind": "json", "runs": [LISTED_RUN], "problems": []}),
    "info": ({"checkpoint": TARGET}, CHECKPOINT),
    "diff": ({"a": TARGET, "b": "1211"}, COMPARISON),
    "call": ({"checkpoint": TARGET}, {"calls": [CALL]}),
    "search": ({"words": ["tea"]}, {name: value for name, value in RESULTS.items() if name != "next"}),
    "export": ({"checkpoint": TARGET, "format": "markdown"}, EXPORTED),
    "note": ({"checkpoint": TARGET, "name": "Before the edit"}, NOTED),
    "comments": ({"checkpoint": TARGET, "add": "Greener?"}, {"discussions": [COMMENT]}),
    "collection": ({}, {"collections": [{"name": "teas", "description": "", "items": 3}]}),
    "fork": ({"checkpoint": TARGET, "input": ["topic=tea"], "limit": ["tokens=20000"]}, STARTED),
    "resume": ({"checkpoint": TARGET, "plan": True}, STARTED),
    "publish": ({"checkpoint": TARGET}, STARTED),
    "sweep": (
        {"checkpoint": TARGET, "vary": ['topic=["tea", "milk"]']},
        {**GROUP, "name": "tone", "branches": []},
    ),
    "bulk": ({"what": "fork", "checkpoints": [TARGET], "model": ["gpt-4o-mini"]}, {**GROUP, "runs": []}),
    "replay": ({"checkpoint": TARGET, "call": "0123456789ab"}, {**STARTED, "calls": 1, "answers": []}),
    "score": ({"checkpoint": TARGET, "function": "newsroom.scores:length"}, {**STARTED, "score": None}),
    "run": ({**PLACE, "input": ["topic=tea"]}, STARTED),
    "answer": ({}, QUESTIONS),
    "cancel": ({"job": "6f1e2d3c"}, CANCELLED),
    "keys": (PLACE, KEYS),
    "prune": ({**PLACE, "days": "90"}, PRUNABLE),
    "remove": (PLACE, {**PLACE, "removed": True}),
    "shares": ({}, {"links": []}),
    "hosts": ({}, {"hosts": [{"name": "worker-1", "is_up": True, "is_drained": False}]}),
    "audit": ({"days": "7"}, {"entries": []}),
    "roles": ({}, {"roles": [], "teams": []}),
    "invitations": ({}, {"invitations": []}),
}
