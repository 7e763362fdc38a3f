"""The English text of each message code, by subject. Texts name values: ``%(name)s``, ``d`` or ``r``."""

from viewer.messages.catalog import launching, locations, pages, runner, runner_crewai, runner_langgraph
from viewer.messages.marking import gettext_noop as _

CATALOG: dict[str, str] = {
    "unknown_code": _("Message %(code)s of another version of Forkline: %(values)s"),
    **launching.MESSAGES,
    **locations.MESSAGES,
    **pages.MESSAGES,
    **runner.MESSAGES,
    **runner_crewai.MESSAGES,
    **runner_langgraph.MESSAGES,
}
