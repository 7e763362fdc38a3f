"""The parts of a checkpoint that no known version of CrewAI writes."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from viewer.engines.crewai.contents.shapes import listed, mapping, text

# The newest version whose checkpoints are tested. Every row of docs/matrix.md runs on it.
NEWEST_KNOWN = "1.15.30"
KNOWN_KEYS = {"entities", "event_record", "crewai_version", "parent_id", "branch", "trigger"}
KNOWN_ENTITIES = {"crew", "flow", "agent"}
MAX_PARTS = 20
_NUMBERS = re.compile(r"\d+")


def is_newer(version: str) -> bool:
    """Whether this version of CrewAI is newer than every known version."""
    have, known = (tuple(map(int, _NUMBERS.findall(one)[:3])) for one in (version, NEWEST_KNOWN))
    return have > known


def unknown_parts(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the unknown and missing parts, such as ``memory_graph`` or ``entities[2] (swarm)``.

    At most ``MAX_PARTS`` are returned.
    """
    return tuple(list(_unknown(body))[:MAX_PARTS])


def _unknown(body: Mapping[str, Any]) -> Iterator[str]:
    yield from (key for key in body if key not in KNOWN_KEYS)
    if not isinstance(body.get("entities"), list):
        yield "entities"
    for number, entity in enumerate(listed(body.get("entities"))):
        kind = text(mapping(entity).get("entity_type"))
        if kind not in KNOWN_ENTITIES:
            yield f"entities[{number}] ({kind})" if kind else f"entities[{number}]"
        elif kind == "crew" and not isinstance(mapping(entity).get("tasks"), list):
            yield f"entities[{number}].tasks"
    if not isinstance(mapping(body.get("event_record")).get("nodes"), dict):
        yield "event_record"
