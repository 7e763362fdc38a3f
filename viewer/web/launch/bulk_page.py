"""The page on which several runs are forked or resumed at once."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid5

from django import forms
from django.db.models import F, OuterRef, Q, Subquery, prefetch_related_objects
from django.http import QueryDict
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from viewer.engines.recorded_calls import ModelChoice
from viewer.host_requests import HostRefusal, ImportRun, ask, each_asked_once
from viewer.launching import bulk
from viewer.launching.options import ALL_AGENTS, stored_models
from viewer.launching.refusals import Code, LaunchRefused, Refusal, copy_refusals
from viewer.launching.requests import FORKS_AND_RESUMES, LaunchOptions
from viewer.launching.sweep import dimension_values
from viewer.models import Checkpoint, Collection, DayLimits, Job, Run, Sweep, uuid_of
from viewer.models.roles import present_access
from viewer.presentation.jobs.status import daily_usage
from viewer.records.bodies import stored_contents
from viewer.records.locations import is_indexed
from viewer.validation import MAX_CHARACTERS, InvalidInput, number_in, whole_number
from viewer.web.fields import valid_values
from viewer.web.launch.options import LimitsForm, ModelCallsField, score_field
from viewer.web.launch.page import LaunchPage
from viewer.web.launch.prefilled import Submission, furthest_of, source_at

# The form: one edit for all runs, and the total limits.


MAX_NAME = 300


class BulkForm(forms.Form):
    """What changes in each fork."""

    part = forms.ChoiceField(
        label=_("Type"),
        required=False,
        choices=[
            ("", _("none")),
            (bulk.VALUE, _("An input or an entry of the state")),
            (bulk.MODEL, _("Model")),
        ],
        widget=forms.Select(attrs={"id": "part", "class": "input", "aria-describedby": "part-error"}),
    )
    name = forms.CharField(
        label=_("Name, or the agent's role"),
        required=False,
        max_length=MAX_NAME,
        widget=forms.TextInput(
            attrs={
                "id": "name",
                "class": "input",
                "list": "names",
                "autocomplete": "off",
                "aria-describedby": "name-error",
            }
        ),
    )
    text = forms.CharField(
        label=_("New value"),
        required=False,
        max_length=MAX_CHARACTERS,
        strip=False,
        widget=forms.Textarea(
            attrs={
                "id": "text",
                "class": "input",
                "rows": 2,
                "spellcheck": "false",
                "aria-describedby": "text-error",
            }
        ),
    )
    again_stale = forms.BooleanField(
        label=_("Run units with stale outputs again."),
        required=False,
        widget=forms.CheckboxInput(attrs={"id": "again-stale"}),
    )
    dry_run = forms.BooleanField(
        label=_("Dry run: call no tool. Recorded results answer, and other calls are refused."),
        required=False,
        widget=forms.CheckboxInput(attrs={"id": "dry-run"}),
    )

    model_calls = ModelCallsField()
    score = score_field()

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        if "part" in values and not values["part"] and (values.get("name") or values.get("text")):
            # Otherwise the forks would start without the edit.
            self.add_error("part", gettext("Choose what the forks change."))
        if values.get("part") == bulk.VALUE and not values.get("name"):
            self.add_error("name", gettext("Name what changes."))
        if values.get("part") == bulk.MODEL and not values.get("text", "").strip():
            self.add_error("text", gettext("Name what changes."))
        return values

    @property
    def edit_fields(self) -> list[forms.BoundField]:
        """The fields of the edit."""
        return [self[name] for name in ("part", "name", "text")]

    @property
    def edit(self) -> bulk.CommonEdit:
        """The edit, as far as it is valid."""
        values = self.cleaned_data if self.is_bound and self.is_valid() else {}
        part, text = values.get("part", ""), values.get("text", "")
        return bulk.CommonEdit(part, values.get("name", ""), text.strip() if part == bulk.MODEL else text)


# The page.


@dataclass(kw_only=True)
class BulkPage(LaunchPage[bulk.BulkPreview, Sweep]):
    """The form with the preview of its request. ``names`` are the values and roles that can be edited."""

    kind: Job.Kind
    form: BulkForm
    limits: LimitsForm
    collection: Collection | None
    runs: Sequence[str]
    checkpoints: Sequence[str]
    names: Sequence[str]

    @property
    def forms(self) -> Sequence[forms.Form]:
        return (self.form, self.limits)

    @property
    def is_fork(self) -> bool:
        return self.kind == Job.Kind.FORK

    @property
    def daily_limits(self) -> list[str]:
        """A sentence for each daily limit that the jobs count towards, with its usage."""
        access = present_access()
        found = []
        if access is None or access.everywhere:
            usage = daily_usage(DayLimits.current(), Job.objects.all())
            found = [f"{gettext('All jobs')}: {text}" for text in usage]
        for project in dict.fromkeys(one.request.project for one in self.preview.starting):
            if project:
                jobs = Job.objects.filter(project=project)
                found += [f"{project.folder}: {text}" for text in daily_usage(project.limits, jobs)]
        return found

    def launch(self) -> Sweep:
        return bulk.start_bulk(self.preview)


def bulk_page(kind: Job.Kind, sent: QueryDict, submission: Submission) -> BulkPage:
    """The page for the runs and checkpoints that ``sent`` names, and those of the collection."""
    data = submission.data
    runs, checkpoints = _distinct(sent.getlist("run")), _distinct(sent.getlist("checkpoint"))
    form, limits = BulkForm(data), LimitsForm(data)
    collection = _collected(sent.get("collection", ""))
    items = bulk.chosen_items(collection) if collection else []
    count, names = len(runs) + len(checkpoints) + len(items), set[str]()
    chosen = bulk.each_once([*selected(runs, checkpoints), *items]) if count <= bulk.MAX_RUNS else []
    edit = form.edit if kind == Job.Kind.FORK else bulk.CommonEdit()
    if not bulk.size_error(one.checkpoint for one in chosen):
        furthest = _with_copies([one.checkpoint for one in chosen if one.checkpoint])
        with each_asked_once():
            chosen = [_chosen(kind, one, form, edit, submission, names, furthest) for one in chosen]
    content = [
        kind,
        runs,
        checkpoints,
        collection and collection.pk,
        sorted((name, sent.getlist(name)) for name in (*form.fields, *limits.fields)),
    ]
    request = bulk.BulkRequest(
        kind=kind,
        chosen=chosen,
        count=count,
        # The same content sent twice starts once; changed content is another request.
        key=uuid5(submission.key, repr(content)),
        edit=edit,
        options=LaunchOptions(limits=limits.limits),
        requested_by=submission.user,
        seen_plan=None if data is None else data.get("shown", ""),
        score=str(valid_values(form).get("score") or "") if kind == Job.Kind.FORK else "",
        collection=collection,
    )
    return BulkPage(
        **submission.page_values,
        kind=kind,
        form=form,
        limits=limits,
        preview=bulk.preview_bulk(request),
        collection=collection,
        runs=runs,
        checkpoints=checkpoints,
        names=sorted(names),
    )


def _distinct(texts: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(texts))


def selected(runs: Sequence[str], checkpoints: Sequence[str]) -> list[bulk.Chosen]:
    """What an address names: the newest checkpoint of each run, and checkpoints by their keys."""
    return bulk.each_once([*_of_runs(runs), *_of_checkpoints(checkpoints)])


def _collected(text: str) -> Collection | None:
    pk = number_in(text)
    return Collection.objects.filter(pk=pk).first() if pk else None


def _gone(title: str) -> bulk.Chosen:
    message = gettext("It was removed.")
    return bulk.Chosen(title[:MAX_NAME], refusals=[Refusal(Code.CHECKPOINT, message)])


def _of_runs(texts: Sequence[str]) -> list[bulk.Chosen]:
    """The newest checkpoint of each run, from which the engine would continue it."""
    named = Run.objects.filter(uid__in=[uid for text in texts if (uid := uuid_of(text))])
    runs = {run.uid: run for run in named.select_related("location")}
    for run in runs.values():
        if is_indexed(run.location):
            # Its checkpoints may not be listed yet.
            ask(ImportRun(run.pk))
    rows = Checkpoint.objects.filter(run=OuterRef("pk")).exclude(Checkpoint.IS_SCRATCH).order_by("-row")
    rows = rows.filter(Q(run__head="") | Q(run__head=F("checkpoint_id")))
    newest = named.order_by().annotate(newest=Subquery(rows.values("pk")[:1])).values("newest")
    checkpoints = {row.run_id: row for row in _checkpoints().filter(pk__in=newest)}
    found = []
    for text in texts:
        uid = uuid_of(text)
        if (one := runs.get(uid) if uid else None) is None:
            found.append(_gone(text))
        elif checkpoint := checkpoints.get(one.pk):
            found.append(bulk.Chosen(str(one), checkpoint))
        else:
            message = gettext("No checkpoints yet")
            found.append(bulk.Chosen(str(one), refusals=[Refusal(Code.CHECKPOINT, message)]))
    return found


def _of_checkpoints(texts: Sequence[str]) -> list[bulk.Chosen]:
    pks = dict[str, int]()
    for text in texts:
        with suppress(InvalidInput):
            pks[text] = whole_number(text, 1, 2**63 - 1)
    rows = _checkpoints().in_bulk(list(pks.values()))
    found = [(text, rows.get(pks.get(text, 0))) for text in texts]
    return [bulk.Chosen(str(row.run), row) if row else _gone(text) for text, row in found]


def _checkpoints() -> Any:
    # Stored copies are loaded once their sizes are known.
    return Checkpoint.objects.select_related("location__project", "run__location")


def _with_copies(checkpoints: Sequence[Checkpoint]) -> dict[int, Checkpoint]:
    """The furthest checkpoint of each run, for the cost, by the key of the chosen one.

    Only as many as may be decoded besides the chosen ones. Loads the copies of all.
    """
    room, found = bulk.MAX_BYTES - sum(one.size for one in checkpoints), dict[int, Checkpoint]()
    for pk, row in furthest_of(checkpoints).items():
        if row.size <= room:
            room -= row.size
            found[pk] = row
    prefetch_related_objects([*checkpoints, *found.values()], "stored_copy")
    return found


def _chosen(
    kind: Job.Kind,
    one: bulk.Chosen,
    form: BulkForm,
    edit: bulk.CommonEdit,
    submission: Submission,
    names: set[str],
    furthest: Mapping[int, Checkpoint],
) -> bulk.Chosen:
    """The run with its request, or the reasons why it has none. Adds what an edit could name to ``names``.

    ``furthest`` has the checkpoint from which the cost is estimated.
    """
    checkpoint = one.checkpoint
    if checkpoint is None:
        return one
    if refusals := copy_refusals(checkpoint):
        return bulk.Chosen(one.title, checkpoint, refusals=refusals)
    try:
        source = source_at(checkpoint)
        contents = source.contents
        names |= {
            *dimension_values(contents)[1],
            *(role for role in stored_models(contents) if role != ALL_AGENTS),
        }
        edits, models = bulk.edited(contents, edit)
        values = form.cleaned_data if form.is_bound and form.is_valid() else {}
        request = FORKS_AND_RESUMES[kind](
            checkpoint=checkpoint,
            contents=contents,
            furthest=stored_contents(row) if (row := furthest.get(checkpoint.pk)) else None,
            project=source.project,
            folder=source.folder,
            entry_point=source.entry_point(None),
            branch="" if kind == Job.Kind.FORK else checkpoint.recorded_branch,
            edits=edits,
            models=models,
            again_stale=bool(values.get("again_stale")),
            dry_run=bool(values.get("dry_run")),
            model_calls=values.get("model_calls") or ModelChoice.CALL,
            requested_by=submission.user,
        )
    except LaunchRefused as refused:
        return bulk.Chosen(one.title, checkpoint, refusals=refused.refusals)
    except HostRefusal as refused:
        return bulk.Chosen(one.title, checkpoint, refusals=[Refusal(Code.START, refused)])
    return bulk.Chosen(one.title, checkpoint, request)
