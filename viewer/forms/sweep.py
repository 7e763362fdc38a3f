"""The form of variations: what differs between the forks of one checkpoint, and the branches that follow."""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import Any

from django.utils.text import slugify
from django.utils.translation import gettext as _

from viewer.engines import engine_of
from viewer.engines.plan import Edits
from viewer.engines.protocol import Contents
from viewer.forms.fork import ForkForm, FormError
from viewer.forms.sweep_dimension import SentTexts, Varied, varied_model, varied_output, varied_value
from viewer.launching.plan_preview import Promise, promise_of
from viewer.launching.values import same_value
from viewer.lineage.branch_names import BranchRefused, checked_branch
from viewer.messages.labels import told
from viewer.redaction.marker import MARKER
from viewer.redaction.values import redact

MOST_BRANCHES = 20
MOST_WORDS = 60
MOST_IN_A_NAME = 30


@dataclass(slots=True)
class Branch:
    """One fork of the group: what is special about it in words, and what it will do."""

    number: int
    words: str
    name: str
    edits: Edits
    models: dict[str, str]
    promise: Promise
    error: str = ""


@dataclass(slots=True)
class VaryingForm:
    """What varies, the branches that follow from it, and all that must be mended first."""

    varied: list[Varied]
    base: str
    again_stale: bool = False
    branches: list[Branch] = field(default_factory=list)
    count: int = 0

    def of(self, group: str) -> list[Varied]:
        return [one for one in self.varied if one.group == group]

    @property
    def values(self) -> list[Varied]:
        """The inputs, or the state."""
        return self.of("input") + self.of("state")

    @property
    def outputs(self) -> list[Varied]:
        return self.of("output")

    @property
    def models(self) -> list[Varied]:
        return self.of("model")

    @property
    def most(self) -> int:
        return MOST_BRANCHES

    @property
    def stale_count(self) -> int:
        """How many branches keep a text that was made with a former value."""
        return sum(bool(branch.promise.stale) for branch in self.branches)

    @property
    def calls(self) -> int:
        return sum(branch.promise.calls for branch in self.branches)

    @property
    def tokens(self) -> int:
        return sum(branch.promise.tokens for branch in self.branches)

    @property
    def errors(self) -> list[FormError]:
        """In the order of the page."""
        found = [FormError(one.html_id, one.label, one.error) for one in self.varied if one.error]
        if self.count > MOST_BRANCHES:
            words = _("These are %(count)d branches, and %(most)d at most can be started at once.")
            found.append(
                FormError("content", _("Variations"), words % {"count": self.count, "most": self.most})
            )
        elif not self.branches and not found:
            found.append(FormError("content", _("Variations"), _("Say first what varies.")))
        wrong = next((branch for branch in self.branches if branch.error), None)
        if wrong:
            found.append(FormError("branch", _("Branch"), wrong.error))
        return found


def read_varying(
    contents: Contents,
    plain: ForkForm,
    branches: Collection[str],
    sent: SentTexts,
    last: Contents | None = None,
) -> VaryingForm:
    """The form as it is first shown (``sent`` is None), or as it was sent.

    ``plain`` is the fork's form as the checkpoint fills it, ``branches`` are the names that are taken.
    """
    values = plain.inputs or plain.state
    group = "input" if plain.inputs else "state"
    varied = [varied_value(one, group, sent) for one in (values.fields if values else [])]
    stored = {one.unit: one.value for one in engine_of(contents).editable(contents).outputs}
    varied += [varied_output(one, stored[one.unit], sent) for one in plain.outputs if not one.too_long]
    varied += [varied_model(one, sent) for one in plain.models.fields]
    base = plain.branch if sent is None else (sent.get("branch") or [""])[0].strip()
    form = VaryingForm(varied, base, bool(sent and sent.get("again-stale")))
    chosen = [one for one in varied if one.values]
    form.count = prod(len(one.values) for one in chosen) if chosen else 0
    if 0 < form.count <= MOST_BRANCHES:
        form.branches = list(_branches(contents, form, chosen, branches, last, plain.source))
    return form


def _branches(
    contents: Contents,
    form: VaryingForm,
    chosen: Sequence[Varied],
    taken: Collection[str],
    last: Contents | None,
    source: Any,
) -> Iterator[Branch]:
    names: set[str] = set()
    for number, combination in enumerate(product(*(one.values for one in chosen)), 1):
        pairs = list(zip(chosen, combination, strict=True))
        edits, models = _edits_of(pairs, contents)
        promise = promise_of(contents, edits, last, source=source)
        if form.again_stale and promise.stale:
            edits = replace(edits, again=frozenset(step.unit for step in promise.stale))
            promise = promise_of(contents, edits, last, source=source)
        shown = [(one, shown_value(one, value)) for one, value in pairs]
        name = _name(form.base, [value for one, value in shown if len(one.values) > 1], number, names)
        names.add(name)
        words = ", ".join(f"{one.label}: {words_of(value)}" for one, value in shown)
        branch = Branch(number, words, name, edits, models, promise)
        try:
            checked_branch(name, taken)
        except BranchRefused as refused:
            branch.error = told(refused)
        yield branch


def _edits_of(pairs: Sequence[tuple[Varied, Any]], contents: Contents) -> tuple[Edits, dict[str, str]]:
    """A combination as edits and models; what means the stored value is no edit."""
    inputs: dict[str, Any] = {}
    state: dict[str, Any] = {}
    outputs: dict[str, Any] = {}
    models: dict[str, str] = {}
    own_state = engine_of(contents).editable(contents).state or {}
    for one, value in pairs:
        if one.group == "model":
            models[one.key] = value
        elif one.group == "output":
            if value is not None:
                outputs[one.key] = value
        else:
            stored = contents.inputs if one.group == "input" else own_state
            if one.key not in stored or not same_value(value, stored[one.key]):
                (inputs if one.group == "input" else state)[one.key] = value
    return Edits(inputs=inputs, outputs=outputs, state=state or None), models


def shown_value(one: Varied, value: Any) -> Any:
    """The value as it may be kept beside the job and in its branch's name: without keys."""
    return redact({one.key: value})[one.key] if one.group in ("input", "state") else redact(value)


def words_of(value: Any) -> str:
    """A value as a few words."""
    if value is None:
        return _("as it is")
    if isinstance(value, dict) and set(value) == {"json"}:
        value = value["json"]
    text = " ".join((value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).split())
    return text if len(text) <= MOST_WORDS else text[: MOST_WORDS - 1] + "…"


def _name(base: str, values: Sequence[Any], number: int, taken: Collection[str]) -> str:
    """The branch of this combination: the base's name and what is special about it."""
    # The engine reads "_p-" as its own, so no underline comes in.
    texts = ["" if MARKER in words_of(value) else words_of(value) for value in values]
    parts = [slugify(text, allow_unicode=True).replace("_", "-") for text in texts]
    special = ".".join(part[:MOST_IN_A_NAME].strip("-") for part in parts if part.strip("-"))
    name = f"{base}/{special or number}"
    return name if name not in taken else f"{name}-{number}"
