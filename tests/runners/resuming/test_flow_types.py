"""The class of a method's result is the one its listener names, in all versions."""

from types import SimpleNamespace
from typing import Any

import pytest

from forkline_crewai.entry_points import type_of


class Fact:
    """What a method returns."""


class FlowOfTwo:
    def __init__(self) -> None:
        self._methods = {"find": self.find, "read": self.read}

    def find(self):  # type: ignore[no-untyped-def]
        return Fact()

    def read(self, found: Fact) -> str:
        return str(found)


DEFINITION = SimpleNamespace(
    methods={"find": SimpleNamespace(listen=None), "read": SimpleNamespace(listen="find")}
)


class ListenersOfItsClass(FlowOfTwo):
    """As in CrewAI 1.14.2 to 1.14.4."""

    _listeners = {"read": ("OR", ["find"])}


class DefinitionOfItsClass(FlowOfTwo):
    """As in CrewAI 1.14.7."""

    @classmethod
    def flow_definition(cls) -> Any:
        return DEFINITION


class DefinitionOfItsOwn(DefinitionOfItsClass):
    """As in CrewAI 1.15, where a flow of a file has another definition than its class."""

    _definition = DEFINITION

    @classmethod
    def flow_definition(cls) -> Any:
        return SimpleNamespace(methods={})


@pytest.mark.parametrize("flow", [ListenersOfItsClass, DefinitionOfItsClass, DefinitionOfItsOwn])
def test_the_listener_names_the_class(flow: type[FlowOfTwo]) -> None:
    assert type_of(flow(), "find") is Fact
    assert type_of(flow(), "read") is str
