"""The forms of a location, its project and its pruning."""

from typing import Any

from django import forms
from django.conf import settings
from django.urls import reverse, reverse_lazy
from django.utils.translation import gettext, gettext_lazy
from django.utils.translation import gettext_lazy as _

from viewer.engines import all_engines, engine_of
from viewer.host_requests import MAX_PRUNE_LATEST, CheckProjectPaths, ask
from viewer.messages.translation import translate
from viewer.models import Host, Location, Project
from viewer.records.hosts import is_here
from viewer.stores.addresses import is_uri
from viewer.validation import MAX_DAYS
from viewer.web.forms.fields import WholeNumberField

# The form of a location: its path.


class LocationForm(forms.Form):
    """The import checks whether the path may be opened and what is there."""

    path = forms.CharField(
        label=_("Folder or SQLite file"),
        max_length=1000,
        widget=forms.TextInput(
            attrs={
                "class": "input input-mono",
                "placeholder": "/path/to/newsroom/.checkpoints",
                "autocomplete": "off",
                "spellcheck": "false",
                "list": "paths",
                "hx-get": reverse_lazy("location-paths"),
                "hx-trigger": "focus once, input changed delay:100ms",
                "hx-target": "#paths",
                "hx-swap": "innerHTML",
                "hx-sync": "this:replace",
            }
        ),
    )

    def offer_paths(self, host: Host | None) -> None:
        """Complete what is typed with the paths of this host."""
        if host is not None:
            self.fields["path"].widget.attrs["hx-get"] = reverse("location-paths", query={"host": host.pk})

    def clean_path(self) -> str:
        """The path. A connection URI may hold a password, and is not shown again."""
        path = str(self.cleaned_data["path"])
        if is_uri(path):
            self.data = {**self.data, "path": ""}
        is_path = ":" not in path.partition("/")[0] and path not in settings.POSTGRESQL_LOCATIONS
        if is_path and not path.startswith(("/", "~")):
            # It would be relative to the folder in which the server was started.
            raise forms.ValidationError(_("Enter an absolute path."))
        return path


def allowed_folders(host: Host | None = None) -> str:
    """The allowed folders of a host, as one text. This machine has those of the settings."""
    roots = settings.CHECKPOINT_ROOTS if host is None or is_here(host.pk) else host.folders
    return ", ".join(str(root) for root in roots)


# The form of a project: its folder, interpreter, environment file and entry points.


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
                message = gettext("%(name)s is not an entry point: write %(form)s, one per line.")
                form = gettext(self.engine.entry_point_labels.form)
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
                gettext("Too many entry points: %(most)d at most.") % {"most": MAX_ENTRY_POINTS},
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


# The form of the rules by which a location is pruned.


class RulesForm(forms.Form):
    """Age, number, branch or thread, of which empty fields are no rules; and whether copies are deleted."""

    days = WholeNumberField(0, MAX_DAYS, label=_("Older than, in days"))
    latest = WholeNumberField(1, MAX_PRUNE_LATEST, label=_("Keep the newest of each branch"))
    branch = forms.CharField(label=_("Only this branch"), required=False, max_length=300)
    thread = forms.CharField(label=_("Only this thread"), required=False, max_length=300, strip=False)
    whole_threads = forms.BooleanField(label=_("Delete whole threads"), required=False)
    copies = forms.BooleanField(label=_("Delete the stored copies too"), required=False)

    def __init__(self, data: Any, *, of_threads: bool) -> None:
        super().__init__(data)
        for name in ("branch",) if of_threads else ("thread", "whole_threads"):
            del self.fields[name]
