"""The rows of a list of runs: their status, and what distinguishes runs of one name."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from viewer.annotations import annotations_of_runs
from viewer.models import Annotation, Run
from viewer.presentation.run_list.filters import asking_runs, running_runs

# Inputs of one row, and the newest runs whose inputs are compared.
MAX_INPUTS, MAX_COMPARED = 3, 2_000

LABELS: dict[str, str | Promise] = {
    "asking": _("waiting for you"),
    "waiting": _("waiting for an answer"),
    "running": _("running"),
    # Another program writes it.
    "live": _("live"),
    "failed": _("failed"),
    "completed": _("completed"),
    "cancelled": _("cancelled"),
    "interrupted": _("interrupted"),
    "unknown": _("end not recorded"),
    "unfinished": _("not finished"),
    # A run that is only listed: it neither waits nor has failed.
    "idle": _("idle"),
}


@dataclass(frozen=True, slots=True)
class RunInput:
    """An input in a row. A prompt has no name."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run of the list. ``inputs`` starts with those that distinguish it from runs with the same name."""

    run: Run
    status: str
    inputs: tuple[RunInput, ...]
    # The annotation of the run.
    annotation: Annotation | None = None

    @property
    def status_label(self) -> str:
        return str(LABELS[self.status])

    @property
    def all_inputs(self) -> str:
        """All inputs, one per line."""
        return "\n".join(f"{name}: {text}" if name else text for name, text in self.run.inputs)


def rows_of(runs: Sequence[Run]) -> list[RunRow]:
    """Return the row of each run, in a constant number of queries."""
    running, asking = set(running_runs()), set(asking_runs())
    shown = Run.objects.filter(pk__in=[run.pk for run in runs])
    live = set(shown.being_written().values_list("pk", flat=True))
    differing, annotations = _differing_inputs(runs), annotations_of_runs(runs)
    return [
        RunRow(
            run,
            status_of(run, running, asking, live),
            _inputs(run, differing[run.location_id, run.name]),
            annotations.get(run.pk),
        )
        for run in runs
    ]


def status_of(run: Run, running: set[int], asking: set[int], live: set[int]) -> str:
    """Return the status of a run, as a key of LABELS."""
    if run.pk in asking:
        return "asking"
    if run.pk in running:
        return "running"
    if run.pk in live:
        return "live"
    if run.status:
        return run.status
    if run.head and not run.indexed_fingerprint:
        return "idle"
    is_decided = run.newest_status == "unknown" or (run.branch_count == 1 and run.newest_status in LABELS)
    return run.newest_status if is_decided else "unfinished"


def _differing_inputs(runs: Sequence[Run]) -> dict[tuple[int, str], set[str]]:
    """Return the names of inputs that differ among the runs of a name, by location and name."""
    locations, names = {run.location_id for run in runs}, {run.name for run in runs if run.name}
    others = Run.objects.top_level().filter(location__in=locations, name__in=names)
    values: dict[tuple[int, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    found = others.order_by("-last_at", "-pk").values_list("location", "name", "inputs")[:MAX_COMPARED]
    for location, run_name, inputs in found:
        for name, text in inputs:
            values[location, run_name][name].add(text)
    differing: dict[tuple[int, str], set[str]] = defaultdict(set)
    for key, inputs in values.items():
        differing[key] = {name for name, texts in inputs.items() if len(texts) > 1}
    return differing


def _inputs(run: Run, differing: set[str]) -> tuple[RunInput, ...]:
    """Return the inputs of a row: those that differ between runs, else the first ones."""
    inputs = [RunInput(name, text) for name, text in run.inputs]
    telling = [one for one in inputs if one.name in differing]
    return tuple((telling or inputs)[:MAX_INPUTS])
