"""The form of a project: its folder, interpreter, environment file and entry points."""

import os
import re
from pathlib import Path
from typing import Any

from django import forms
from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.engines import all_engines
from viewer.engines.protocol import Engine
from viewer.forms.location import allowed_folders
from viewer.models import Project
from viewer.projects.stored_paths import is_storable

INTERPRETER = re.compile(r"(python|pypy)[0-9.]*(\.exe)?")
MAX_ENTRY_POINTS = 50


class ProjectForm(forms.Form):
    """``cleaned_data`` has the arguments of ``Project.change``. Folders must be in the allowed roots.

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

    def __init__(self, engine: Engine[Any], found: list[str], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.engine = engine
        choices = [(name, name) for name in found]
        self.fields["entry_points"].choices = choices  # type: ignore[attr-defined]

    def clean_folder(self) -> str:
        folder = _resolved(self.cleaned_data["folder"])
        _refuse_outside(folder)
        if not folder.is_dir():
            raise forms.ValidationError(_("This folder does not exist."))
        return str(folder)

    def clean_interpreter(self) -> str:
        # Not resolved: an environment's interpreter is a link to one that does not know its packages.
        interpreter = _absolute(self.cleaned_data["interpreter"])
        if not interpreter.is_file():
            raise forms.ValidationError(_("This file does not exist."))
        if not os.access(interpreter, os.X_OK):
            raise forms.ValidationError(_("This file is not executable."))
        if not INTERPRETER.fullmatch(interpreter.name):
            raise forms.ValidationError(_("This must be a Python interpreter, such as …/.venv/bin/python."))
        return str(interpreter)

    def clean_environment_file(self) -> str:
        if not self.cleaned_data["environment_file"]:
            return ""
        path = _resolved(self.cleaned_data["environment_file"])
        _refuse_outside(path)
        if not path.is_file():
            raise forms.ValidationError(_("This file does not exist. Leave this empty if there is none."))
        return str(path)

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
        """Merge both fields of entry points into one list without duplicates."""
        values = dict(self.cleaned_data)
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


def _absolute(text: str) -> Path:
    if "\0" in text or not Path(text).is_absolute():
        raise forms.ValidationError(_("Enter an absolute path."))
    # Removes ".." without following links.
    return Path(os.path.normpath(text))


def _resolved(text: str) -> Path:
    path = _absolute(text).resolve()
    # A link may lead to names that are not UTF-8.
    if not is_storable(path):
        raise forms.ValidationError(_("This path cannot be opened."))
    return path


def _refuse_outside(path: Path) -> None:
    if not any(path.is_relative_to(root) for root in settings.CHECKPOINT_ROOTS):
        message = _("This is outside the folders that this server allows: %(roots)s.")
        raise forms.ValidationError(message % {"roots": allowed_folders()})
