"""The page on which the project of a location is proposed, changed, confirmed and isolated."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import msgspec
from django import forms
from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from viewer.data_folder.locks import exclusive_transaction
from viewer.engines import all_engines, engine_of
from viewer.engines.entry_points import EntryPoint
from viewer.host_requests import (
    CheckImports,
    CheckProjectPaths,
    FindEntryPoints,
    HideProjectSecrets,
    HostRefusal,
    InterpreterFacts,
    ListKeepableKeys,
    ProposedProject,
    ProposeProject,
    ReadInterpreter,
    ask,
)
from viewer.messages.translation import translate
from viewer.models import Location, Project, Right
from viewer.models.roles import unrestricted
from viewer.presentation.hosts import (
    LAUNCHER_LABELS,
    LIMIT_LABELS,
    NETWORK_LABELS,
    open_folders,
    unavailable_lines,
)
from viewer.records.annotations import has_changed, mark_of
from viewer.records.audit import Action, Audited, record
from viewer.records.isolation import (
    LIMITS,
    Isolation,
    IsolationRefused,
    allowed_hosts,
    change_isolation,
    checked,
    missing,
    without_noted,
)
from viewer.records.permissions import require_project, requires
from viewer.validation import whole_number
from viewer.web.fields import parsed
from viewer.web.launch.options import DailyLimitsForm
from viewer.web.views.jobs import limits_of_project

MAX_ENTRY_POINTS = 50


class ProjectForm(forms.Form):
    """``cleaned_data`` has the arguments of ``Project.change``. The location's host checks the paths.

    The project may run several engines; the texts are those of the location's ``engine``.
    """

    folder = forms.CharField(max_length=1000, label=gettext_lazy("Folder"))
    interpreter = forms.CharField(max_length=1000, label=gettext_lazy("Python"))
    environment_file = forms.CharField(
        max_length=1000, required=False, label=gettext_lazy("Environment file")
    )
    entry_points = forms.MultipleChoiceField(
        required=False, label=gettext_lazy("Entry points"), widget=forms.CheckboxSelectMultiple
    )
    other_entry_points = forms.CharField(
        required=False, max_length=5000, label=gettext_lazy("Other entry points"), widget=forms.Textarea
    )

    def __init__(
        self, location: Location, found: list[str], data: Any = None, initial: dict[str, Any] | None = None
    ) -> None:
        super().__init__(data, initial=initial)
        self.engine, self.host = engine_of(location), location.host_id
        choices = [(name, name) for name in found]
        self.fields["entry_points"].choices = choices  # type: ignore[attr-defined]

    def clean_other_entry_points(self) -> list[str]:
        names = [
            line.strip() for line in self.cleaned_data["other_entry_points"].splitlines() if line.strip()
        ]
        for name in names:
            if not any(engine.is_entry_point(name) for engine in all_engines()):
                message = _("%(name)s is not an entry point: write %(form)s, one per line.")
                form = _(self.engine.entry_point_labels.form)
                raise forms.ValidationError(message % {"name": name, "form": form})
        return names

    def clean(self) -> dict[str, Any]:
        """Merge both fields of entry points into one list without duplicates, and check the paths."""
        typed = [self.cleaned_data.get(name, "") for name in ("folder", "interpreter", "environment_file")]
        paths = ask(CheckProjectPaths(*typed), host=self.host)
        values = {
            **self.cleaned_data,
            "folder": paths.folder,
            "interpreter": paths.interpreter,
            "environment_file": paths.environment_file,
        }
        for field, message in paths.errors.items():
            self.add_error(field, translate(message))
        names = list(dict.fromkeys([*values.get("entry_points", []), *values.pop("other_entry_points", [])]))
        if len(names) > MAX_ENTRY_POINTS:
            self.add_error(
                "other_entry_points",
                _("Too many entry points: %(most)d at most.") % {"most": MAX_ENTRY_POINTS},
            )
        return {**values, "entry_points": names}


def initial_of(project: Project, found: list[str]) -> dict[str, Any]:
    """The form's initial values for a project; entry points found in its source become boxes."""
    return {
        "folder": project.folder,
        "interpreter": project.interpreter,
        "environment_file": project.environment_file,
        "entry_points": [name for name in project.entry_points if name in found],
        "other_entry_points": "\n".join(name for name in project.entry_points if name not in found),
    }


# The form of how a project's runs are isolated.


class LimitField(forms.CharField):
    """A whole number from 0; 0 if it is empty."""

    def __init__(self, name: str) -> None:
        self.most = LIMITS[name]
        super().__init__(required=False, label=LIMIT_LABELS[name], max_length=20)

    def clean(self, value: Any) -> int:
        text = super().clean(value)
        return parsed(lambda: whole_number(text, 0, self.most)) if text else 0


class FoldersField(forms.CharField):
    """Paths, one a line."""

    def __init__(self, label: Any) -> None:
        hint = gettext_lazy("Absolute paths, one per line, such as a folder of models. Only in a sandbox.")
        super().__init__(
            required=False, label=label, help_text=hint, max_length=20_000, widget=forms.Textarea
        )

    def clean(self, value: Any) -> tuple[str, ...]:
        return tuple(line.strip() for line in super().clean(value).splitlines() if line.strip())


class HostsField(forms.CharField):
    """Hosts, one a line, each with its port if that is not the one of https."""

    def __init__(self) -> None:
        hint = gettext_lazy(
            "One per line, such as api.openai.com or db.example.org:5432. Only with bubblewrap."
        )
        super().__init__(
            required=False,
            label=gettext_lazy("Allowed hosts"),
            help_text=hint,
            max_length=40_000,
            widget=forms.Textarea,
        )

    def clean(self, value: Any) -> tuple[str, ...]:
        try:
            return allowed_hosts(super().clean(value).splitlines())
        except IsolationRefused as refused:
            raise forms.ValidationError(translate(refused)) from None


class IsolationForm(forms.Form):
    """``isolation`` has the values of a valid form. What somebody has changed meanwhile is an error."""

    launcher = forms.ChoiceField(choices=list(LAUNCHER_LABELS.items()), label=gettext_lazy("Launcher"))
    network = forms.ChoiceField(choices=list(NETWORK_LABELS.items()), label=gettext_lazy("Network"))
    allow = HostsField()
    memory_mb = LimitField("memory_mb")
    cpu_seconds = LimitField("cpu_seconds")
    processes = LimitField("processes")
    open_files = LimitField("open_files")
    wall_seconds = LimitField("wall_seconds")
    read = FoldersField(gettext_lazy("May also read"))
    write = FoldersField(gettext_lazy("May also write"))

    def __init__(self, data: Any = None, *, stored: dict[str, Any]) -> None:
        self.stored = stored
        texts = {
            **stored,
            **{name: "\n".join(stored.get(name) or []) for name in ("allow", "read", "write")},
        }
        super().__init__(data, initial=texts)

    @property
    def limits(self) -> list[forms.BoundField]:
        """The fields of limits."""
        return [self[name] for name in LIMITS]

    @property
    def folders(self) -> list[forms.BoundField]:
        return [self["read"], self["write"]]

    @property
    def isolation(self) -> Isolation:
        """What a valid form asks for."""
        return msgspec.convert(self.cleaned_data, Isolation)

    def clean(self) -> dict[str, Any]:
        if has_changed(self.data, self.stored):
            raise forms.ValidationError(_("Somebody changed this meanwhile. Save again to replace it."))
        if not self.errors:
            try:
                checked(self.isolation)
            except IsolationRefused as refused:
                raise forms.ValidationError(translate(refused)) from None
        return self.cleaned_data


# The page of a location's project.


@requires(Right.PROJECTS)
@require_http_methods(["GET", "POST"])
def edit(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Show and change a location's project. Confirming it permits its code to run."""
    location = _location(uid)
    proposed = _proposed(location)
    found = [point.name for point in _entry_points(location, proposed)]
    form = None
    if request.method == "POST":
        form = _sent_form(request, location, found)
        stored = location.project
        is_same = stored is not None and form.is_valid() and form.cleaned_data["folder"] == stored.folder
        if stored and is_same and has_changed(request.POST, *stored.code):
            form.add_error(None, _changed_meanwhile(stored))
        if form.is_valid() and (conflict := ask(CheckImports(**form.cleaned_data), host=location.host_id)):
            form.add_error(None, translate(conflict))
        if form.is_valid():
            project = _confirm(location, form, request)
            ask(HideProjectSecrets(project.pk))
            return redirect(_back(request, location))
    return _page(request, location, proposed, form)


@requires(Right.LIMITS)
@require_POST
def limits(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Change the daily limits of the location's project."""
    location, project = _changeable(uid)
    form = DailyLimitsForm(request.POST, stored=project.limits)
    if not form.is_valid():
        return _page(request, location, _proposed(location), None, form)
    with transaction.atomic():
        project.change_limits(form.limits)
        record(Action.CHANGED, Audited.PROJECT, project.pk, "limits: " + ", ".join(form.limits))
    messages.success(request, _("Limits saved."))
    return _back_to(request, location, "limits")


@requires(Right.PROJECTS)
@require_POST
def keep_keys(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Choose which keys of the location's project stay with Forkline, with the addresses that were shown."""
    location, project = _changeable(uid)
    shown = {key.value: key for key in keys_of(project)}
    chosen = request.POST.getlist("keys")
    if shown.keys() >= set(chosen) and not has_changed(request.POST, project.kept_keys):
        # Of two addresses of a key, the one that the environment file has now comes last.
        kept = {shown[value].variable: shown[value].address for value in chosen}
        with transaction.atomic():
            project.change_kept_keys(kept)
            record(Action.CHANGED, Audited.PROJECT, project.pk, "keys: " + ", ".join(sorted(kept)))
        messages.success(request, _("Keys saved."))
    else:
        messages.error(request, _("A key or its address has changed meanwhile. Check the keys again."))
    return _back_to(request, location, "keys")


@dataclass(frozen=True, slots=True)
class ShownKey:
    """A key that can stay with Forkline, or does."""

    variable: str
    address: str
    is_kept: bool

    @property
    def value(self) -> str:
        """What the form sends: the address as well, so that none is saved that was not shown."""
        return f"{self.variable} {self.address}"


def keys_of(project: Project) -> list[ShownKey]:
    """The keys that stay, and those of the project's environment file.

    One whose address has changed is in it twice, so that a form that is saved as it was shown releases none.
    """
    found = dict.fromkeys(project.kept_keys.items())
    # Another host may be away, or must not open the file.
    with suppress(HostRefusal):
        found |= dict.fromkeys((key.variable, key.address) for key in ask(ListKeepableKeys(project.pk)))
    shown = [ShownKey(name, address, project.kept_keys.get(name) == address) for name, address in found]
    return sorted(shown, key=lambda key: key.variable)


def _may_change(project: Project | None) -> bool:
    """Whether the person may change the project, which another team may use."""
    return project is not None and Project.objects.filter(pk=project.pk).exists()


@requires(Right.PROJECTS)
@require_POST
def isolation(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Change how runs of the location's project are isolated."""
    location, project = _changeable(uid)
    form = IsolationForm(request.POST, stored=without_noted(project.isolation))
    if not form.is_valid():
        return _page(request, location, _proposed(location), None, sent_isolation=form)
    try:
        change_isolation(project, form.isolation)
    except HostRefusal as refused:
        form.add_error(None, translate(refused))
        return _page(request, location, _proposed(location), None, sent_isolation=form)
    messages.success(request, _("Isolation saved."))
    if refusal := missing(form.isolation, project.host.launchers):
        messages.warning(request, translate(refusal))
    return _back_to(request, location, "isolation")


def _location(uid: UUID) -> Location:
    """The location. Raises Http404."""
    return get_object_or_404(Location.objects.select_related("project"), uid=uid)


def _changeable(uid: UUID) -> tuple[Location, Project]:
    """The location and its project, which the person may change. Raises Http404."""
    location = _location(uid)
    if location.project is None:
        raise Http404
    require_project(location.project)
    return location, location.project


def _proposed(location: Location) -> ProposedProject:
    return ask(ProposeProject(location.path, location.engine), host=location.host_id)


def _back_to(request: HttpRequest, location: Location, part: str) -> HttpResponse:
    """Redirect to a part of the page, from which the person returns to where it was opened."""
    back = urlencode({"next": _safe_next(request)})
    return redirect(f"{reverse('project', args=[location.uid])}?{back}#{part}")


def _page(
    request: HttpRequest,
    location: Location,
    proposed: ProposedProject,
    sent: ProjectForm | None,
    sent_limits: DailyLimitsForm | None = None,
    sent_isolation: IsolationForm | None = None,
) -> HttpResponse:
    projects = Project.objects.filter(host=location.host_id)
    known = location.project or projects.filter(folder=proposed.folder).first()
    points = _entry_points(location, proposed)
    found = [point.name for point in points]
    form = sent or ProjectForm(location, found, initial=_initial(known, proposed, found))
    facts = _facts(str(form["interpreter"].value() or "/"), location)
    context = {
        "location": location,
        "project": known,
        "looked_for": _looked_for(proposed) if known is None else "",
        "others": known.locations.exclude(pk=location.pk) if known else [],
        "form": form,
        "kinds": {point.name: point.kind for point in points},
        "conflict": _conflict(form, location),
        "is_outside": facts.is_outside,
        "link_target": facts.link_target,
        "python_version": facts.python_version,
        "engine_version": facts.engine_version,
        "engine": engine_of(location),
        "back": _back(request, location),
        "next": _safe_next(request),
        "seen": mark_of(*known.code) if known else "",
        "keys": keys_of(location.project) if location.project and _may_change(location.project) else None,
        "seen_keys": mark_of(location.project.kept_keys) if location.project else "",
        "day": limits_of_project(location.project, sent_limits) if location.project else None,
        "isolation": _isolation(location.project, sent_isolation) if location.project else None,
    }
    is_wrong = form.errors or sent_limits is not None or sent_isolation is not None
    return render(request, "projects/page.html", context, status=422 if is_wrong else 200)


def _isolation(project: Project, sent: IsolationForm | None) -> dict[str, object]:
    """The form of a project's isolation, and what does not work on its host."""
    asked = without_noted(project.isolation)
    form = sent or IsolationForm(stored=asked)
    return {
        "form": form,
        "choices": [form["launcher"], form["network"]],
        "seen": mark_of(asked),
        "unavailable": list(unavailable_lines(project.host)),
        "open": open_folders(project),
    }


def _facts(interpreter: str, location: Location) -> InterpreterFacts:
    """What is known of a typed interpreter. Another host says nothing of one outside its allowed folders."""
    try:
        return ask(ReadInterpreter(interpreter, location.engine), host=location.host_id)
    except HostRefusal:
        return InterpreterFacts("", "", "", is_outside=True)


def _changed_meanwhile(stored: Project) -> str:
    """What somebody else stored while the form was open."""
    values = (stored.interpreter, stored.environment_file, *stored.entry_points)
    text = _("Somebody changed this project meanwhile. It now has: %(values)s. Confirm again to replace it.")
    return text % {"values": ", ".join(filter(None, values))}


def _looked_for(proposed: ProposedProject) -> str:
    """What was looked for in vain around the location; empty if the project and its Python were found."""
    names = {
        "files": ", ".join(proposed.looked_for),
        "pythons": ", ".join(proposed.looked_for_interpreters),
        "folder": proposed.folder,
    }
    if not proposed.is_found:
        text = _(
            "No project was found: neither %(files)s nor %(pythons)s is in %(folder)s or a folder above it."
        )
        return text % names
    if not proposed.interpreter:
        text = _("No Python environment was found: %(pythons)s is not in %(folder)s or a folder above it.")
        return text % names
    return ""


def _conflict(form: ProjectForm, location: Location) -> str:
    """Why the project's code could not be imported; empty if it could, or if the form has the error."""
    if form.is_bound:
        return ""
    folder, interpreter, file = (
        str(form[name].value() or "") for name in ("folder", "interpreter", "environment_file")
    )
    points = list(form["entry_points"].value() or [])
    conflict = ask(CheckImports(folder, interpreter, file, points), host=location.host_id)
    return translate(conflict) if conflict else ""


def _entry_points(location: Location, proposed: ProposedProject) -> list[EntryPoint]:
    """The entry points in the source of the location's project, else of the proposed one."""
    if location.project and location.project.folder != proposed.folder:
        return ask(FindEntryPoints(engine_of(location).name, location.project.folder), host=location.host_id)
    return proposed.entry_points


def _back(request: HttpRequest, location: Location) -> str:
    return _safe_next(request) or location.get_absolute_url()


def _sent_form(request: HttpRequest, location: Location, found: list[str]) -> ProjectForm:
    """The form as sent. Entry points that have vanished since it was shown may still be chosen."""
    engine = engine_of(location)
    typed = [name for name in request.POST.getlist("entry_points") if engine.is_entry_point(name)]
    return ProjectForm(location, list(dict.fromkeys(found + typed)), request.POST)


def _initial(known: Project | None, proposed: ProposedProject, found: list[str]) -> dict[str, object]:
    if known:
        return initial_of(known, found)
    return {
        "folder": proposed.folder,
        "interpreter": proposed.interpreter,
        "environment_file": proposed.environment_file,
        "entry_points": found,
    }


@exclusive_transaction("projects")
def _confirm(location: Location, form: ProjectForm, request: HttpRequest) -> Project:
    """Store and confirm the project of the form's folder, and assign it to the location."""
    values = dict(form.cleaned_data)
    folder = values.pop("folder")
    at = {"host_id": location.host_id, "folder": folder}
    file = values["environment_file"]
    with unrestricted():
        known = Project.objects.filter(**at).first()
        used = Project.objects.filter(host=location.host_id).exclude(locations=None)
        same_keys = list(used.filter(environment_file=file)) if file else []
    for one in (known, *same_keys):
        # It may be another team's, with their keys.
        require_project(one)
    project = known or Project(**at)
    project.change(**values)
    project.confirm(request.user)
    location.project = project
    location.save(update_fields=["project"])
    location.ask_source_again()
    record(Action.CHANGED, Audited.PROJECT, project.pk, folder)
    return project


def _safe_next(request: HttpRequest) -> str:
    """The address to return to if it is on this server; else empty."""
    address = request.POST.get("next") or request.GET.get("next") or ""
    ours = url_has_allowed_host_and_scheme(address, {request.get_host()}, require_https=request.is_secure())
    return address if ours else ""
