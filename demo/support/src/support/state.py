"""What the support agent keeps of a conversation."""

import operator
from typing import Annotated, TypedDict

from langgraph.graph.message import add_messages


class Support(TypedDict, total=False):
    """The state of one conversation. ``facts`` grows with each node that finds one."""

    messages: Annotated[list, add_messages]
    order: str
    topic: str
    facts: Annotated[list[str], operator.add]
    refund: float
    decision: str


class Research(TypedDict, total=False):
    """The state of the subgraph that reads the shop's policies."""

    topic: str
    passages: list[str]
    facts: list[str]
