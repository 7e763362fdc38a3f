"""The entry points that the source of a project declares, and their inputs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# The types of annotations that a form has fields for.
ANNOTATIONS: Mapping[str, type] = {one.__name__: one for one in (str, int, float, bool, list, dict)}
# The Python types of the types of a JSON schema.
JSON_TYPES: Mapping[str, type] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
}


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """An entry point of a project.

    ``name`` is ``module:Name`` or the file that declares it; ``kind`` is a root kind's name.
    """

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class EntryPointLabels:
    """English texts for a person who chooses entry points, to be translated.

    ``form`` shows how an entry point is written, and ``example`` is one.
    """

    hint: str
    form: str
    example: str


@dataclass(frozen=True, slots=True)
class InputName:
    """An input that an entry point's source uses. ``kind`` is the type of its annotation, or None.

    ``default`` is valid only if ``has_default`` is true.
    """

    name: str
    kind: type | None = None
    default: Any = None
    has_default: bool = False
