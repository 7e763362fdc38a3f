"""The bodies of requests: the arguments of a command by their names, parsed by its own parser."""

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal, cast

from ninja import Schema
from pydantic import ConfigDict, Field, create_model

from viewer.cli.arguments import FROM_FILE, arguments_of, command_line, is_list, parser_of
from viewer.cli.parsing import NEW_FILE
from viewer.validation import MAX_CHARACTERS

# Of one list.
MAX_VALUES = 10_000


class Options(Schema):
    """The options of a command, by their names with underscores."""

    model_config = ConfigDict(extra="forbid")


def options_of(
    name: str, command: str, without: Collection[str], example: Mapping[str, Any] | None = None
) -> type[Options]:
    """Return the type of this name of bodies with the arguments of a command, derived from its parser."""
    fields: dict[str, Any] = {}
    for argument, action in arguments_of(command).items():
        if argument in without:
            continue
        text = (action.help or "") % {"default": action.default}
        is_required = not action.option_strings and action.nargs is None
        default: Any = ... if is_required else None
        if action.nargs == 0:
            fields[argument] = (bool, Field(False, description=text))
        elif action.type is NEW_FILE:
            fields[argument] = (Literal["-"] | None, Field(None, description="- returns the file."))
        elif action.choices and action.nargs is None:
            kind: Any = Literal[tuple(map(str, action.choices))]
            fields[argument] = (kind if is_required else kind | None, Field(default, description=text))
        else:
            typed = Annotated[str, Field(max_length=MAX_CHARACTERS)]
            # Only a terminal names files.
            metavar = str(action.metavar or argument.upper()).replace(f"|{FROM_FILE}", "")
            kind = typed if is_required else typed | None
            if is_list(action):
                kind, default = Annotated[list[typed], Field(max_length=MAX_VALUES)], []
            fields[argument] = (kind, Field(default, description=f"{metavar}: {text}"))
    base = Options
    if example is not None:
        config = ConfigDict(extra="forbid", json_schema_extra={"example": dict(example)})
        base = cast(type[Options], type("Options", (Options,), {"model_config": config}))
    return cast(type[Options], create_model(name, __base__=base, **fields))


def given_in(body: Options) -> dict[str, Any]:
    """Return what a body names, without options that are false."""
    return {
        name: value for name, value in body.dict(exclude_unset=True).items() if value not in (None, False)
    }


def parsed(command: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments as the command parses them. Raises CommandError."""
    return vars(parser_of(command).parse_args(command_line(command, given)))
