"""Which classes of a project only hold what a checkpoint gives them, by their source."""

from collections.abc import Callable
from pathlib import Path

import pytest

from forkline_langgraph.effects import DATA_CLASSES
from forkline_runner.effects import is_data_class

HEAD = """
from __future__ import annotations
import abc, dataclasses, datetime as dt, enum, functools, operator, os, pathlib, subprocess, typing as t, uuid
import pydantic
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, Literal, NamedTuple, Optional, TypedDict, TypeVar
from langchain_core.callbacks.file import FileCallbackHandler
from langchain_core.documents import Document
from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage
from langgraph.graph import MessagesState, add_messages
from pydantic import (AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, FilePath, ImportString,
    Json, RootModel, computed_field, field_serializer, field_validator, model_validator)
from .shared import Address, Opener
Item = TypeVar("Item")
def made(values): return open(values["path"], "w")
"""
SHARED = """
from pydantic import BaseModel
class Address(BaseModel):
    street: str = ""
class Opener(BaseModel):
    path: str
    def model_post_init(self, context): open(self.path, "w")
"""
DATA = [
    "@dataclass\nclass C:\n"
    "    path: pathlib.Path\n    opener: Opener\n    many: list = field(default_factory=list)",
    "@dataclasses.dataclass(frozen=True, slots=True)\nclass C:\n"
    "    x: int\n    @property\n    def y(self): return open('x')",
    "class C(TypedDict, total=False):\n    x: Opener",
    "class C(MessagesState):\n    x: int",
    "class C(NamedTuple):\n    x: int = 1\n    def save(self): open('x', 'w')",
    "class C(str, enum.Enum):\n    A = 'a'\n    B = 'b'",
    "@enum.unique\nclass C(enum.IntFlag):\n    A = 1",
    "class C(BaseModel):\n    'Doc.'\n"
    "    model_config = ConfigDict(extra='allow')\n    x: str | None = None\n"
    "    y: Literal['a', 'b'] = 'a'\n    z: Annotated[list[int], operator.add] = Field(default_factory=list)",
    "class C(pydantic.BaseModel):\n    a: Address\n"
    "    b: Optional['C'] = None\n    c: dict[str, list[Address]] = {}\n"
    "    d: dt.datetime\n    e: t.Any\n    messages: Annotated[list[BaseMessage], add_messages]",
    "class A(BaseModel):\n    x: int = Field(ge=0)\nclass C(A):\n    y: Annotated[int, Field(gt=1)] = 2",
    "class C(BaseModel, Generic[Item]):\n    x: Item2\nclass Item2(BaseModel):\n    up: 'C | None'",
    "class C(RootModel[list[str]]):\n    pass",
    "class C(BaseModel):\n    x: int\n    @computed_field\n    @property\n    def y(self) -> int: return 1",
    "class C(BaseModel):\n"
    "    at: dt.datetime = Field(default_factory=dt.datetime.now)\n"
    "    id: str = Field(default_factory=lambda: '')",
    "class C(Document):\n    score: float = 0",
    "class C(HumanMessage):\n    tone: str = ''",
    "class C:\n    pass",
]
NOT_DATA = [
    "class C:\n    def __init__(self, path): open(path, 'w')",
    "class C:\n    def __new__(cls, path): return open(path, 'w')",
    "class C:\n    __init__ = made",
    "class C:\n    (__init__, x) = (made, 1)",
    "class C(FileCallbackHandler):\n    pass",
    "class A(FileCallbackHandler):\n    pass\nclass C(A):\n    pass",
    "class C(subprocess.Popen):\n    pass",
    "class C(Opener):\n    pass",
    "class C(Address):\n    x: Opener",
    "class A:\n    def __init__(self, x): os.remove(x)\n@dataclass\nclass C(A):\n    y: int",
    "@dataclass\nclass C:\n    x: str\n    def __post_init__(self): os.remove(self.x)",
    "@pydantic.dataclasses.dataclass\nclass C:\n    x: Opener",
    "@pydantic.dataclasses.dataclass\nclass C:\n    x: FilePath",
    "class C(BaseModel):\n    x: ImportString",
    "class C(BaseModel):\n    x: list[pydantic.ImportString]",
    "class C(BaseModel):\n    x: 'dict[str, ImportString]'",
    "class C(BaseModel):\n    x: Annotated[str, AfterValidator(os.remove)]",
    "Name = Annotated[str, BeforeValidator(os.remove)]\nclass C(BaseModel):\n    x: Name",
    "class C(BaseModel):\n    x: str\n"
    "    @field_validator('x')\n    @classmethod\n    def check(cls, x): os.remove(x)",
    "class C(BaseModel):\n    x: str\n"
    "    @model_validator(mode='after')\n    def check(self): os.remove(self.x)",
    "class C(BaseModel):\n    x: str\n    check = field_validator('x')(made)",
    "class C(BaseModel):\n"
    "    path: str\n    file: Any = Field(default_factory=lambda data: open(data['path'], 'w'))",
    "class C(BaseModel):\n    path: str\n    file: Any = Field(default_factory=made)",
    "class C(BaseModel):\n    x: Opener",
    "class C(BaseModel):\n    x: Annotated[int, made]",
    "class M(type):\n    def __call__(cls, path): open(path, 'w')\nclass C(metaclass=M):\n    pass",
    "def note(cls): return made\n@note\nclass C:\n    pass",
    "class C(enum.Enum):\n    A = 1\n    @classmethod\n    def _missing_(cls, value): open(value, 'w')",
    "class C(dict):\n    def __setitem__(self, k, v): pass\n    def __init__(self, v): open(v, 'w')",
    "class C:\n    x: str\n    def __del__(self): os.remove(self.x)",
    "class C(abc.ABC, FileCallbackHandler):\n    pass",
    "class C(*[FileCallbackHandler]):\n    pass",
    "class C(**{'metaclass': type}):\n    pass",
    "class C(t.cast(type, FileCallbackHandler)):\n    pass",
    "class C:\n    if True:\n        def __init__(self, x): os.remove(x)",
    "class BaseModel:\n    def __init__(self, x): os.remove(x)\nclass C(BaseModel):\n    pass",
    "class str:\n    def __init__(self, x): os.remove(x)\nclass C(str):\n    pass",
    "class C: pass\nC = FileCallbackHandler",
    "if os.name:\n    class C:\n        def __init__(self, x): os.remove(x)\nelse:\n    class C: pass",
    "class C(BaseModel): pass\nfrom subprocess import Popen as BaseModel",
    "C = FileCallbackHandler",
    "def C(path): open(path, 'w')",
    "from os import system as C",
]


@pytest.fixture
def is_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], bool]:
    """Return whether the class ``C`` of a project's module with this source only holds data."""
    (tmp_path / "own_package").mkdir()
    (tmp_path / "own_package/__init__.py").touch()
    (tmp_path / "own_package/shared.py").write_text(SHARED)
    monkeypatch.syspath_prepend(tmp_path)

    def decide(source: str) -> bool:
        (tmp_path / "own_package/module.py").write_text(HEAD + source + "\n")
        return is_data_class("own_package.module", "C", DATA_CLASSES)

    return decide


@pytest.mark.parametrize("source", DATA)
def test_a_class_that_only_holds_data(is_data: Callable[[str], bool], source: str) -> None:
    assert is_data(source)


@pytest.mark.parametrize("source", NOT_DATA)
def test_a_class_that_runs_code_with_what_it_is_given(is_data: Callable[[str], bool], source: str) -> None:
    assert not is_data(source)


def test_an_installed_class_is_not_the_projects_own(is_data: Callable[[str], bool], tmp_path: Path) -> None:
    assert is_data("class C: pass") and not is_data_class("pydantic.main", "BaseModel")
    package = tmp_path / "own_package"
    package.rename(tmp_path / "site-packages")
    package.symlink_to(tmp_path / "site-packages")
    assert not is_data_class("own_package.module", "C")
