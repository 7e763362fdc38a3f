"""Adapts a crew's kickoff hooks to a resume or fork."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from forkline_runner.messages import Refused

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.host.jobs.request import Request


CALLED = {"again", "runs"}


def adapt(crew: Any, request: Request, reporter: Reporter) -> None:
    """Call the hooks before the kickoff with the run's inputs, and those after it only if something ran.

    The engine would call the hooks before the kickoff without inputs. What they return is not used: they
    returned the checkpoint's inputs, which a person may have edited. The kickoff raises Refused if one of
    these hooks fails.
    """
    crew.before_kickoff_callbacks = [_with_inputs(crew, hook) for hook in crew.before_kickoff_callbacks]
    if not any(step["action"] in CALLED for step in request["steps"]):
        crew.after_kickoff_callbacks = []
    if _memories(crew):
        reporter.warn("crewai.memory_not_in_checkpoint")


def _with_inputs(crew: Any, hook: Callable[[Any], Any]) -> Callable[[Any], None]:
    def called(_kickoff: Any) -> None:
        try:
            hook(dict(crew.checkpoint_inputs or {}))
        except Exception as error:
            name = getattr(hook, "__name__", repr(hook))
            raise Refused(
                "crewai.kickoff_hook_failed",
                name=name,
                kind=type(error).__name__,
                error=error,
            ) from error

    return called


def _memories(crew: Any) -> list[Any]:
    owners = [crew, *crew.agents]
    return [owner.memory for owner in owners if getattr(owner, "memory", None)]
