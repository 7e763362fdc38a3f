"""Filters and tags of the templates: numbers, times and texts, jobs, and the lineage."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from html import unescape
from typing import Any

import nh3
from django import template
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import Truncator
from django.utils.timesince import timesince
from django.utils.timezone import localtime, now
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext as _
from markdown_it import MarkdownIt

from viewer import formats
from viewer.engines.recorded_calls import call_name
from viewer.launching import labels
from viewer.launching.start import redacted_answer
from viewer.messages.translation import translate
from viewer.models import Checkpoint, Job, Location, NotificationTarget, Question, Right, Run
from viewer.models.roles import present_access, visible_rows
from viewer.presentation.diff import Piece
from viewer.presentation.hosts import ShownHost, asked_for, hosts_if_several, in_force
from viewer.presentation.jobs import pages, status
from viewer.presentation.jobs.status import Wait, limit_label, wait_of, warnings_of
from viewer.presentation.run.branches import Moment, job_colour, statuses_text, title_of, trigger_label
from viewer.presentation.run.window import Collapsing
from viewer.records.hosts import is_stalled
from viewer.records.notifications import is_muted
from viewer.records.permissions import may_at
from viewer.web.launch.conversations import AnswersForm, asked_form

# Filters that format numbers, sizes and texts.


register = template.Library()
register.filter("trigger_label", trigger_label)

MAX_BRANCH = 20
MAX_TITLE = 120
# The name that the engine gives a fork: only its end is distinctive.
GENERATED_BRANCH = re.compile(r"fork/\d{8}T\d{6}_")


@register.filter
@lru_cache(maxsize=1000)
def bar_marks(bars: tuple[str, ...]) -> SafeString:
    """Return a bar for each unit of a row. Cached: a page has hundreds, and few differ."""
    return format_html_join("", '<i class="bar {}"></i>', ((bar,) for bar in bars))


@register.filter
def marked(pieces: Iterable[Piece], tag: str) -> SafeString:
    """The text of the pieces, with the changed ones in this HTML element."""
    marks = {True: format_html("<{0}>{{}}</{0}>", tag), False: "{}"}
    return format_html_join("", "{}", ((format_html(marks[piece.changed], piece.text),) for piece in pieces))


@register.filter
def with_each(heads: Sequence[Any], cells: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Return the head of each column with its cell."""
    return list(zip(heads, cells, strict=True))


@register.filter
def pretty_json(value: Any) -> str:
    """Return the value as indented JSON text."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


@register.filter
def as_value(value: Any) -> str:
    """Return a text unchanged, anything else as JSON."""
    return value if isinstance(value, str) else pretty_json(value)


@register.filter
def kind_of_value(value: Any) -> str:
    """Return the type of a JSON value in a word."""
    if value is None:
        return gettext("nothing")
    if isinstance(value, bool):
        return gettext("yes or no")
    text = {str: gettext("text"), int: gettext("number"), float: gettext("number"), list: gettext("list")}
    return text.get(type(value), gettext("object"))


@register.filter
def short_branch(branch: str) -> str:
    """Return at most 20 characters of the name, cut in the middle: ``fork/…a1b2c3``."""
    if len(branch) <= MAX_BRANCH:
        return branch
    if GENERATED_BRANCH.match(branch):
        return f"fork/…{branch[-6:]}"
    return f"{branch[:10]}…{branch[-9:]}"


@register.filter
def beginning(text: str, max_length: int) -> str:
    """Return the first ``max_length`` characters, cut at a word."""
    if len(text) <= max_length:
        return text
    return text[:max_length].rsplit(" ", 1)[0] + " …"


@register.filter
def one_line(html: str) -> SafeString:
    """Return the rendered text of a page's title on one line, with at most MAX_TITLE characters."""
    text = " ".join(unescape(html).split())
    return escape(Truncator(text).chars(MAX_TITLE))


# Safe HTML from Markdown that a model wrote.


# No images: loading one would reveal to its server who reads this, and when.
MARKDOWN_TAGS = {"a", "blockquote", "br", "code", "em", "hr", "li", "ol", "p", "pre", "s", "strong", "ul"} | {
    *("h1", "h2", "h3", "h4", "h5", "h6"),
    *("table", "tbody", "td", "th", "thead", "tr"),
}
# Hostile Markdown of this length takes a second to parse; a longer text is shown unformatted.
MAX_MARKDOWN = 50_000
MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table").enable("strikethrough").disable("image")


@register.filter("markdown")
def markdown_as_html(text: str) -> SafeString:
    """Return sanitised HTML. HTML in the text is escaped; links send no referrer."""
    if len(text) > MAX_MARKDOWN:
        return format_html("<pre>{}</pre>", text)
    html = nh3.clean(
        MARKDOWN.render(text),
        tags=MARKDOWN_TAGS,
        attributes={"a": {"href"}, "ol": {"start"}},
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
    )
    return mark_safe(html)  # noqa: S308 - cleaned just above


# Filters for numbers, sizes, money and durations.


register.filter("count", formats.count_text)
register.filter("short_number", formats.short_number)
register.filter("score_number", formats.score_number)
register.filter("short_size", formats.short_size)
register.filter("money", formats.money)
register.filter("duration", formats.duration)


@register.simple_tag
def cost_of(amount: float | None, unpriced_calls: int) -> str:
    """The cost of some calls: at least the amount if some have no price; empty if there were none."""
    if amount is None:
        return gettext("no price") if unpriced_calls else ""
    return f"≥ {formats.money(amount)}" if unpriced_calls else formats.money(amount)


@register.simple_tag
def duration_texts() -> str:
    """Return the units of a duration as JSON for ``static/js/live.js``."""
    return json.dumps(formats.duration_units(), ensure_ascii=False)


# Texts with a number that scripts fill in, in the plural forms of every language.


# In each language, every plural form is that of one of these numbers.
SAMPLES = (0, 1, 2, 3, 11, 100)
TEXTS: dict[str, Callable[[int], str]] = {
    "commands": lambda number: ngettext("%(count)s command", "%(count)s commands", number),
    "new_checkpoints": lambda number: ngettext(
        "%(count)s new checkpoint", "%(count)s new checkpoints", number
    ),
    "picked": lambda number: ngettext("%(count)s picked to compare", "%(count)s picked to compare", number),
}


@register.simple_tag
def counts(name: str) -> str:
    """Return the text of this name for each sample, as JSON for ``static/js/counts.js``."""
    return json.dumps({number: TEXTS[name](number) for number in SAMPLES}, ensure_ascii=False)


# Times on pages. ``static/js/times.js`` formats them again for a reader with another time zone or clock.


@register.filter
def moment(at: datetime | None, name: str) -> SafeString | str:
    """Return the time as an element: ``short``, ``ago``, ``for`` or one of FORMATS; empty without a time.

    The whole time is its title.
    """
    if at is None:
        return ""
    texts = {"short": formats.short_moment, "ago": _ago, "for": _for_time}
    text = texts[name](at) if name in texts else formats.moment_text(at, name)
    return _element(at, text, "" if name in ("ago", "for") else name)


@register.filter
def since(at: datetime | None, start: datetime | None) -> SafeString | str:
    """Return the time since ``start`` as an element: ``+4 min 7 s``; empty if a time is missing."""
    if at is None or start is None:
        return ""
    return _element(at, f"+{formats.duration((at - start).total_seconds())}", "")


def _element(at: datetime, text: str, name: str) -> SafeString:
    """Return a text for a time as an element. The script formats it again if it has the name of a format."""
    mark = '<time datetime="{}" title="{}"{}>{}</time>'
    shown_again = format_html(' data-time="{}"', name) if name else ""
    return format_html(mark, localtime(at).isoformat(), formats.moment_text(at, "full"), shown_again, text)


def _ago(at: datetime) -> str:
    if now() - at < timedelta(minutes=1):
        return gettext("just now")
    return gettext("%(time)s ago") % {"time": timesince(at)}


def _for_time(at: datetime) -> str:
    if now() - at < timedelta(minutes=1):
        return gettext("for less than a minute")
    return gettext("for %(time)s") % {"time": timesince(at)}


# Stored messages in templates.


register.filter("message", translate)
register.filter("call_name", call_name)


# Filters for jobs, and the live area of a page.


register.filter("job_sentence", status.sentence)
register.filter("job_hint", status.hint)
register.filter("job_elapsed", status.elapsed)
register.filter("job_branch_url", pages.branch_url)
register.filter("job_start_url", pages.start_url)
register.filter("job_waiting_since", status.waiting_since)
register.filter("job_waited", status.waited)
register.filter("job_attempt", status.attempt_label)
register.filter("job_status", status.status_label)
register.filter("job_status_class", status.status_class)
register.filter("job_lateness", status.lateness)
register.filter("job_next", pages.next_step)
register.filter("job_retry_url", pages.retry_url)
register.filter("job_limits", pages.limits_shown)
register.filter("asked_isolation", lambda project: list(asked_for(project)))
register.filter("job_isolation", lambda job: list(in_force(job.isolation)))
register.filter("job_stopped", limit_label)
register.filter("job_published", pages.published)
register.filter("job_wait", wait_of)
register.filter("job_warnings", warnings_of)
register.filter("job_colour", job_colour)
register.filter("job_is_stalled", is_stalled)
register.filter("action_label", labels.action_label)
register.filter("reason_label", labels.reason_label)
register.filter("tool_choice_label", labels.tool_choice_label)
register.filter("asker", lambda question: labels.asker_label(question.context))


@register.filter
def at(can_run: bool, location: int | None) -> bool:
    """Return whether somebody who can run may do so at the location of a row, by its key."""
    return bool(can_run) and (location is None or may_at(Right.RUN, location))


@register.filter
def may_continue(wait: Wait | None, can_administer: bool) -> bool:
    """Return whether a job waits for the decision of an admin, who reads the page."""
    if wait is None or wait.kind != "admin" or not can_administer:
        return False
    return may_at(Right.MEMBERS, wait.job.location_id)


@register.inclusion_tag("live/_location.html", takes_context=True)
def live(context: Mapping[str, Any], location: Location, run: Run | None = None) -> dict[str, Any]:
    """Return the context of a page's live area: the location's revision and running jobs.

    That of a run also shows who else has it open.
    """
    unfinished = Job.objects.unfinished().filter(location=location).select_related("run", "location")
    return {
        "location": location,
        "run": run,
        "is_shared": context["is_shared"],
        "can_run": context["can_run"],
        "ended": Job.objects.ended().filter(location=location).count(),
        "jobs": [pages.shown_job(job) for job in unfinished.order_by("created_at")],
    }


@register.simple_tag(takes_context=True)
def mute_choice(context: Mapping[str, Any], run: Run) -> str:
    """Return ``mute`` or ``unmute``, for the menu of a run of somebody who is notified; else nothing."""
    user = context["request"].user
    if not NotificationTarget.objects.filter(user=user.pk).exists():
        return ""
    return "unmute" if is_muted(user, run) else "mute"


# Tags and filters for the questions that runs ask.


@register.simple_tag
def questions_waiting() -> int:
    """Return the number of questions that wait for an answer."""
    access = present_access()
    questions = visible_rows(Question, access) if access else Question.objects.all()
    return int(questions.waiting().count())


@register.filter
def answer_shown(question: Question) -> str:
    """Return the answer without secrets; what was chosen for a tool's call by its label."""
    answer = redacted_answer(question)
    return labels.tool_choice_label(answer) if question.kind == Question.Kind.TOOL_CALL else answer


@register.filter
def html_mark(question: Question) -> str:
    """Return what distinguishes the question's element ids: the job's id and the question's number."""
    return f"{question.job_id}-{question.number}"


@register.simple_tag
def suggested_answers(question: Question, sent: AnswersForm | None) -> AnswersForm | None:
    """Return the form of the answers that the question suggests, or the one that was sent.

    None if its engine suggests none.
    """
    return sent or asked_form(question)


@register.filter
def answer_effect(question: Question) -> str:
    """Return what an answer continues, as a sentence."""
    if question.job.kind == Job.Kind.FORK:
        return _("Your answer continues this fork only. The original still waits and can be answered.")
    return _("Your answer continues the run itself.")


@register.filter
def answer_hint(question: Question) -> str:
    """Return what the person who answers should do, as a sentence."""
    if question.kind == Question.Kind.HUMAN_INPUT:
        return _("Review the output. Describe what to improve to have it redone, or accept it.")
    if question.kind == Question.Kind.TEXT_INPUT:
        return _("The run asks for text input.")
    if question.kind == Question.Kind.PROGRAM_INPUT:
        return _("The program waits for a line of input, as in a terminal.")
    if question.choices:
        return _("Choose an outcome, or write feedback and a model chooses the outcome.")
    return _("Write feedback. It is passed to the next step.")


@register.filter
def empty_answer_label(question: Question) -> str:
    """Return the label of the button that sends an empty answer."""
    if question.kind == Question.Kind.HUMAN_INPUT:
        return _("Accept")
    if question.kind == Question.Kind.PROGRAM_INPUT:
        return _("Send an empty line")
    if question.kind == Question.Kind.TEXT_INPUT:
        return _("Send an empty answer")
    outcome = str(question.context.get("empty_means") or "")
    if outcome:
        return _("No feedback (“%(outcome)s”)") % {"outcome": outcome}
    return _("No feedback")


# Where a location or a job is, on pages. Nothing is shown if there is only one host.


@register.inclusion_tag("hosts/_where.html")
def where(subject: Location | Job, hosts: Mapping[int, ShownHost] | str = "") -> dict[str, Any]:
    """Show the host of a location or job, whether it is away, and the pool of its location.

    A page with many passes all ``hosts``.
    """
    location = subject.location if isinstance(subject, Job) else subject
    found = hosts_if_several() if isinstance(hosts, str) else hosts
    shown = found.get(subject.host_id or location.host_id)
    return {"shown": shown, "pool": location.pool if shown else None}


register.filter("checkpoint_title", title_of)
register.filter("branch_statuses", statuses_text)


@register.filter
def checkpoint_heading(checkpoint: Checkpoint) -> str:
    """The branch and the title: ``main, 2 of 4 completed``."""
    return f"{checkpoint.branch}, {title_of(checkpoint)}"


@register.filter
def colour_in(branch: str, colours: Mapping[str, int]) -> int:
    """Return the index of the branch's colour, 0 to 7."""
    return colours.get(branch, 0)


@register.filter
def branch_toggle(collapsing: Collapsing, branch: str) -> str:
    """Return the parameters of an address with the branch collapsed, or not any more."""
    return collapsing.toggled_branch(branch).query


@register.filter
def checkpoint_count(count: int) -> str:
    """Return the number of checkpoints in words."""
    return ngettext("%(count)s checkpoint", "%(count)s checkpoints", count) % {
        "count": formats.count_text(count)
    }


@register.filter
def run_count(count: int) -> str:
    """Return the number of runs in words."""
    return ngettext("%(count)s run", "%(count)s runs", count) % {"count": formats.count_text(count)}


# The next two mark up parts of a row. A page has about a hundred rows, and a template for each part would
# take several times as long.


@register.filter
def clock_mark(moment: Moment | None) -> SafeString | str:
    """Return the time of day at which a row was created, or an empty text."""
    if moment is None:
        return ""
    mark = '<time class="mono" datetime="{}" data-time="clock" title="{}">{}</time>'
    return format_html(mark, moment.iso, moment.whole, moment.clock)


@register.filter
@lru_cache(maxsize=1000)
def stretch_branch(branch: str, colour: int) -> SafeString:
    """Return the name of the branch whose stretch begins at a row."""
    mark = '<span class="row-branch mono lane-{}" title="{}">{}</span>'
    return format_html(mark, colour, branch, short_branch(branch))
