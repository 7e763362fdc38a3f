"""Creates jobs, preflight checks and questions made of payloads. Needs Django to be set up."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from quality.fuzz.script_injection.checkpoints import Texts

if TYPE_CHECKING:
    from viewer.models import Checkpoint, Job

EVENT_TEXTS = (
    *("message", "task", "agent", "title", "output", "error", "method", "model", "tool", "arguments", "text"),
    *("prompt", "words", "whose", "measure", "max_amount", "description", "engine", "engine_version", "id"),
)


def make_jobs(checkpoint: "Checkpoint", texts: Texts) -> "list[Job]":
    """Create one failed job for each number, as variations of one sweep. Return the jobs to open."""
    from viewer.models import Job, Sweep

    group = Sweep.objects.create(name=texts.text("variations", texts.numbers[0])[:300], checkpoint=checkpoint)
    jobs = [Job(**job_values(checkpoint, texts, number), sweep=group) for number in texts.numbers]
    Job.objects.bulk_create(jobs)
    shown = [job for job, number in zip(jobs, texts.numbers, strict=True) if number in texts.visited]
    for job, number in zip(shown, texts.visited, strict=True):
        make_events(job, texts, texts.together(number))
        make_questions(job, texts, texts.together(number))
    return shown


def job_values(checkpoint: "Checkpoint", texts: Texts, number: int) -> dict[str, Any]:
    def text(field: str) -> str:
        return texts.text(f"job {field}", *texts.together(number))

    step = {name: text(f"step {name}") for name in ("title", "agent", "why")}
    return {
        "kind": "fork",
        "location": checkpoint.location,
        "run": checkpoint.run,
        "checkpoint": checkpoint,
        "project": checkpoint.location.project,
        "status": "failed",
        "plan": [{"unit": "1", "position": 1, "action": "runs", **step}],
        "limit_hit": {name: text(name) for name in ("whose", "measure", "max_amount")},
        "request": {"entry_point": text("entry point"), "options": {"models": {text("role"): text("model")}}},
        **{name: text(name) for name in ("result", "error", "traceback")},
        "log_end": text("log"),
        **{name: texts.text(f"job {name}", number)[:300] for name in ("branch", "variation")},
    }


def make_replays(checkpoint: "Checkpoint", texts: Texts) -> "tuple[str, Job]":
    """Create a group with the replay of a recorded call. Return the name of the call, and the job."""
    from django.utils import timezone

    from viewer.models import Job, JobEvent, Sweep
    from viewer.presentation.calls import recorded_calls_of

    first = texts.numbers[0]
    call = recorded_calls_of(checkpoint)[0]
    models = [texts.text("replayed model", number) for number in texts.numbers]
    job = Job.objects.create(
        kind="replay",
        status="succeeded",
        location=checkpoint.location,
        run=checkpoint.run,
        checkpoint=checkpoint,
        variation=texts.text("replayed agent", first)[:300],
        sweep=Sweep.objects.create(name=texts.text("replays", first)[:300], checkpoint=checkpoint),
        request={"replay": {"recorded": call.name, "models": models, "times": 1}},
    )
    answered: list[dict[str, Any]] = []
    for index, number in enumerate(texts.numbers):
        arguments = {"x": texts.text("argument", number)}
        tool = {"name": texts.text("requested tool", number), "arguments": arguments}
        answer = {"model": models[index], "attempt": 1, "tools": [tool]}
        answered.append({**answer, "text": texts.text("new answer", number)})
        answered.append({**answer, "error": texts.text("call error", number)})
    for seq, data in enumerate(answered, 1):
        JobEvent.objects.create(job=job, seq=seq, kind="call_replayed", data=data, at=timezone.now())
    return call.name, job


def make_events(job: "Job", texts: Texts, numbers: Sequence[int], first: int = 1) -> int:
    """Create every kind of event for each number. Return the last sequence number."""
    from django.utils import timezone

    from viewer.models import JobEvent
    from viewer.presentation.jobs.events import LABELS

    made: list[JobEvent] = []
    for number in numbers:
        data = {name: texts.text(f"event {name.replace('_', ' ')}", number) for name in EVENT_TEXTS}
        for kind in (*LABELS, "warning", "text", texts.text("event kind", number)[:50]):
            known = {"number": 1, "position": 1, "agents": [data["agent"]]}
            made.append(
                JobEvent(job=job, seq=first + len(made), kind=kind, at=timezone.now(), data=data | known)
            )
    JobEvent.objects.bulk_create(made)
    return first + len(made) - 1


def make_questions(job: "Job", texts: Texts, numbers: Sequence[int]) -> None:
    """Create one question for each number. Every third one is answered."""
    from django.utils import timezone

    from viewer.models import Question

    for index, number in enumerate(numbers):
        fields = ("output", "agent", "task", "method", "empty_means")
        context: dict[str, Any] = {
            name: texts.text(f"asked {name.replace('_', ' ')}", number) for name in fields
        }
        context["choices"] = [texts.text("choice", number)]
        answered = {"answer": texts.text("answer", number), "answered_at": timezone.now()}
        Question.objects.create(
            job=job,
            number=index + 1,
            kind=("human_input", "human_feedback", "text_input")[index % 3],
            prompt=texts.text("prompt", number),
            context=context,
            **(answered if index % 3 == 2 else {}),
        )


def preflight_report(texts: Texts) -> dict[str, Any]:
    """Return the findings of a preflight check, made of payloads."""

    def all_of(field: str) -> list[str]:
        return [texts.text(f"look {field}", number) for number in texts.numbers]

    parts = [
        {"what": what, "name": name, "task": 1, "agent": name, "fate": fate}
        for what, name in zip(all_of("part"), all_of("name"), strict=True)
        for fate in ("lost", "project", "restored")
    ]
    questions = [
        {
            "kind": "task",
            "saved": saved,
            "position": 1,
            "title": saved,
            "reason": why,
            "choices": [[why, why]],
        }
        for saved, why in zip(all_of("saved"), all_of("reason"), strict=True)
    ]
    return {
        "components": parts,
        "questions": questions,
        "blocks": all_of("block"),
        "notes": [{"what": "unwritten", "detail": detail} for detail in all_of("note")],
        "imports": all_of("import"),
        "engine_version": texts.text("look version", texts.numbers[0]),
        "python_version": texts.text("look python", texts.numbers[0]),
    }
