"""A start from a page, which shows the reasons if it is refused."""

from collections.abc import Callable
from typing import Protocol, TypeVar
from uuid import UUID, uuid4

from viewer.launching.refusals import AlreadyStarted, Code, LaunchRefused, Refusal

Started = TypeVar("Started")


class LaunchPage(Protocol):
    """``notice`` asks to press the button again. ``refused`` are the reasons that a start was refused for."""

    key: UUID
    notice: str
    refused: list[Refusal]


def attempt(page: LaunchPage, start: Callable[[], Started]) -> Started | None:
    """What ``start`` returns; None if it was refused, which the page then shows."""
    try:
        return start()
    except LaunchRefused as refused:
        if isinstance(refused, AlreadyStarted):
            page.key = uuid4()
        again = [one.message for one in refused.refusals if one.code == Code.SEND_AGAIN]
        page.notice = " ".join(again)
        page.refused = [] if again else refused.refusals
        return None
