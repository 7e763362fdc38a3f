"""Functions of the functional API. The input of one need not be an object."""

import os
from datetime import date
from pathlib import Path
from typing import Any, TypedDict

from graphs import ran
from langgraph.func import entrypoint, task
from langgraph.types import interrupt


class Order(TypedDict):
    number: int
    title: str


@task
def draft(topic: str) -> str:
    ran("draft")
    return f"draft on {topic}"


@task
def publish(text: str) -> str:
    ran("publish")
    if (Path(os.environ["NODES_FILE"]).parent / "fail-publish").exists():
        raise ValueError("publish fails")
    return f"published {text}"


@entrypoint()
def write(topic: str) -> str:
    """Draft, then publish."""
    return publish(draft(topic).result()).result()


@entrypoint()
async def reviewed(topic: str) -> dict[str, Any]:
    """Draft, ask, then publish."""
    text = await draft(topic)
    answer = interrupt({"question": f"Publish {text}?", "options": ["yes", "no"]})
    return {"text": await publish(text) if answer == "yes" else "", "answer": answer}


@entrypoint()
def ordered(order: Order) -> str:
    return f"{order['number']} {order['title']}"


@task
def in_january(day: int) -> dict[date, dict[str, int]]:
    return {date(2026, 1, day): {"day": day}}


@entrypoint()
def dated(day: int) -> dict[date, dict[str, int]]:
    """Return what JSON cannot hold: keys that are no texts."""
    return in_january(day).result()
