"""The English text of each message code, by subject. Texts name values: ``%(name)s``, ``d`` or ``r``."""

from viewer.messages.catalog import (
    answers,
    crewai_edits,
    importing,
    jobs,
    langgraph,
    lineage,
    postgresql,
    pruning,
    runner,
    runner_crewai,
    runner_crewai_restore,
    runner_langgraph,
    search,
    stores,
    validation,
)
from viewer.messages.marking import gettext_noop as _

CATALOG: dict[str, str] = {
    "unknown_code": _("Message %(code)s of another version of Forkline: %(values)s"),
    **answers.MESSAGES,
    **crewai_edits.MESSAGES,
    **importing.MESSAGES,
    **jobs.MESSAGES,
    **langgraph.MESSAGES,
    **lineage.MESSAGES,
    **postgresql.MESSAGES,
    **pruning.MESSAGES,
    **runner.MESSAGES,
    **runner_crewai.MESSAGES,
    **runner_crewai_restore.MESSAGES,
    **runner_langgraph.MESSAGES,
    **search.MESSAGES,
    **stores.MESSAGES,
    **validation.MESSAGES,
}
