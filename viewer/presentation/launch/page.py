"""The common parts of all launch pages: errors, refusals, and the start."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from uuid import UUID, uuid4

from django.contrib.auth.models import AbstractBaseUser
from django.forms import Form
from django.http import QueryDict

from viewer.forms.launch.preflight import PreflightForm
from viewer.launching.preview.findings import UNCHECKED, CheckedLaunch, Findings
from viewer.launching.preview.preflight import preflight_of
from viewer.launching.refusals import AlreadyStarted, Code, LaunchRefused, Refusal
from viewer.launching.requests.requests import CheckpointRequest
from viewer.models import PreflightCheck
from viewer.presentation.launch.retry import Retry

Started = TypeVar("Started")


@dataclass(frozen=True, slots=True)
class Submission:
    """A submitted form and its user. ``data`` is None if the page is shown for the first time.

    ``chosen`` are the answers that the link to the page named, by their field, and ``opened`` is the part at
    which the form opens.
    """

    data: QueryDict | None
    user: AbstractBaseUser | None
    key: UUID
    chosen: Mapping[str, str] = field(default_factory=dict)
    opened: str = ""

    @property
    def page_values(self) -> dict[str, Any]:
        """The values that every page uses."""
        return {"key": self.key, "is_sent": self.data is not None}


@dataclass(frozen=True, slots=True)
class FieldError:
    """An error, with the id and label of its field."""

    html_id: str
    label: str
    message: str


@dataclass(kw_only=True)
class LaunchPage(Generic[Started]):
    """``notice`` asks the person to submit again. ``refused`` are the reasons why a start was refused.

    ``retry`` is about the job that the page repeats.
    """

    key: UUID
    is_sent: bool
    retry: Retry | None = None
    notice: str = ""
    refused: list[Refusal] = field(default_factory=list)

    @property
    def forms(self) -> Sequence[Form]:
        """The forms, in the order of the page."""
        raise NotImplementedError

    @property
    def checked(self) -> CheckedLaunch | None:
        """The preview of the request; None if there is no request yet."""
        raise NotImplementedError

    def launch(self) -> Started:
        """Start the request. Raises LaunchRefused."""
        raise NotImplementedError

    @property
    def findings(self) -> Findings | None:
        return self.checked.findings if self.checked else None

    @property
    def refusals(self) -> list[Refusal]:
        """Each reason once, including those of an attempted start."""
        found = self.checked.refusals if self.checked else []
        return list(dict.fromkeys([*found, *self.refused]))

    @property
    def against(self) -> list[str]:
        """The reasons that no field of the page can resolve."""
        return list(dict.fromkeys(one.message for one in self.refusals if not one.field))

    @property
    def form_errors(self) -> list[FieldError]:
        """The errors of all forms, in the order of the page."""
        return [error for form in self.forms for error in errors_of(form)]

    @property
    def errors(self) -> list[FieldError]:
        """What a person has to correct, answer or accept. A field's own error precedes a refusal."""
        found = self.form_errors
        named = {error.html_id for error in found}
        fields = [one for one in self.refusals if one.field and one.field not in named]
        return [*found, *(FieldError(one.field, one.label, one.message) for one in fields)]

    @property
    def can_start(self) -> bool:
        return not (self.refusals or self.form_errors)

    @property
    def waits_for_preflight(self) -> bool:
        """Whether only a running preflight check prevents the start."""
        return False

    @property
    def is_blocked(self) -> bool:
        """Whether the start button is disabled."""
        return not self.can_start

    @property
    def is_unchecked(self) -> bool:
        """Whether only a preflight check is missing, which nobody has asked for yet."""
        missing = [one for one in self.refusals if one.field == UNCHECKED]
        return bool(missing) and self.refusals == missing and not (self.refused or self.form_errors)

    @property
    def shows_refusal(self) -> bool:
        """Whether the page lists the reasons against a start next to the button."""
        return self.is_blocked and not (self.waits_for_preflight or self.is_unchecked)

    @property
    def branch_error(self) -> str:
        return self.error_at("branch")

    @property
    def entry_point_error(self) -> str:
        return self.error_at("entry-point")

    def error_at(self, html_id: str) -> str:
        """The first error at this field; empty if there is none."""
        return next((error.message for error in self.errors if error.html_id == html_id), "")

    def start(self) -> Started | None:
        """Start the launch. Return what was started, or None if it was refused, as the page then shows."""
        if self.form_errors:
            return None
        try:
            return self.launch()
        except LaunchRefused as refused:
            if isinstance(refused, AlreadyStarted):
                self.key = uuid4()
            again = [one.message for one in refused.refusals if one.code == Code.SEND_AGAIN]
            self.notice = " ".join(again)
            self.refused = [] if again else refused.refusals
            return None


def errors_of(form: Form) -> Iterator[FieldError]:
    """Yield the errors of the form's fields."""
    for name, messages in form.errors.items():
        for message in messages:
            yield FieldError(form[name].id_for_label, str(form[name].label), str(message))


def preflight_for(request: CheckpointRequest, form: PreflightForm) -> PreflightCheck | None:
    """The preflight check of this request, after starting it or accepting its effects if the form asks."""
    return preflight_of(
        request,
        may_start=form.is_bound,
        again=form.starts_check,
        accepted_effects=form.accepted_effects,
    )
