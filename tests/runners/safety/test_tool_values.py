"""Every value that a checkpoint gives to a tool needs consent, unless the project's code gives the same."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from forkline_crewai.effects import clean_crew, effects_of, may_import
from forkline_runner.effects import Effect, unaccepted
from forkline_runner.reporting import Refused

TOOLS = """
from crewai import Agent
from crewai.tools import BaseTool
from pydantic import Field

class Base(BaseTool):
    region: str = "eu"

class FileTool(Base):
    name: str = "files"
    description: str = "Reads."
    mode: str = Field(default="read", description="x")
    tags: list[str] = Field(default_factory=lambda: ["a", "b"])
    retries: int = 3

class Remover(FileTool):
    pass
"""
DESK = """
from desk_tools import FileTool, Remover
PATH = "out.txt"
def build():
    return [FileTool(path=PATH, config={"host": "own.example", "ports": [1, 2]}), FileTool(mode="delete"),
            Remover(path="tmp.txt")]
"""
# Names of fields with hosts, commands and files, and one that nobody has thought of.
FIELDS = (
    *("host", "server", "hostname", "endpoint", "domain", "proxy", "dsn", "ip", "url", "baseUrl", "webhook"),
    *("shell", "code", "python", "sql", "commands", "cmdline", "command", "argv", "query"),
    *("cwd", "filePath", "path", "directory", "out", "x", "zzz", "config", "name", "description"),
)
KINDS = {
    **dict.fromkeys(("host", "server", "endpoint", "dsn", "ip", "baseUrl", "config.proxyServer"), "host"),
    **dict.fromkeys(("shell", "code", "sql", "commands[0]", "cmdline", "python"), "command"),
    **dict.fromkeys(("cwd", "filePath", "config.output_dir"), "file"),
    **dict.fromkeys(("zzz", "mode"), "value"),
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a project with tools, and with an entry point that uses them."""
    (tmp_path / "desk_tools.py").write_text(TOOLS)
    (tmp_path / "desk.py").write_text(DESK)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def crew_with(*tools: Mapping[str, Any], **crew: Any) -> dict[str, Any]:
    agent = {"role": "x", "llm": {"model": "openai/gpt-4o-mini"}, "tools": list(tools)}
    return {"entity_type": "crew", "agents": [agent], "tasks": [], **crew}


def tool(kind: str = "desk_tools.FileTool", /, **fields: Any) -> dict[str, Any]:
    return {"tool_type": kind, "name": "files", "description": "Reads.", **fields}


def effects(crew: Mapping[str, Any], *entry_points: str, **environment: str) -> list[Effect]:
    request: Any = {"entry_point": "", "entity": "crew", "entry_points": list(entry_points)}
    address = {"OPENAI_BASE_URL": "http://127.0.0.1:9"}
    return effects_of(crew, request, environment or address)


def listed(*tools: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the fields and values that need consent where the project's own code makes tools."""
    return [(one.field, one.name) for one in effects(crew_with(*tools), "desk:build")]


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("value", ["evil.example", "rm -rf x", "/srv/x", "x"])
def test_every_text_of_a_tool_is_listed_whatever_its_field(project: Path, field: str, value: str) -> None:
    assert listed(tool() | {field: value}) == [(field, value)]
    assert listed(tool(deep={"er": [{field: value}]})) == [(f"deep.er[0].{field}", value)]
    assert listed(tool(many={value: None})) == [("many", value)]
    assert listed(tool(many={value: [None]})) == [("many", value)]
    quoted = f".{value}" if value.isidentifier() else f'.["{value}"]'
    assert listed(tool(many={value: True})) == [(f"many{quoted}", "true")]


@pytest.mark.parametrize(("field", "kind"), KINDS.items())
def test_the_field_says_what_a_value_is(project: Path, field: str, kind: str) -> None:
    name, _dot, inner = field.replace("[0]", "").partition(".")
    given: Any = {inner: "some text"} if inner else ["some text"] if "[" in field else "some text"
    (effect,) = effects(crew_with(tool(**{name: given})), "desk:build")
    assert (effect.kind, effect.field, effect.tool) == (kind, field, "desk_tools.FileTool")
    assert effect.detail == f"desk_tools.FileTool: {field}"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        *((text, "host") for text in ("https://u@evil.example/x", "evil.example:80", "10.0.0.1", "::1")),
        *((text, "file") for text in ("~/x", "../x", "C:\\x", "/srv")),
        *((text, "value") for text in ("plain words", "v1.2", "12:30")),
    ],
)
def test_otherwise_the_text_does(project: Path, text: str, kind: str) -> None:
    (effect,) = effects(crew_with(tool(zzz=text)), "desk:build")
    assert (effect.kind, effect.name) == (kind, text)


def test_what_the_own_code_gives_to_the_same_class_and_field_is_not_listed(project: Path) -> None:
    own = {"host": "own.example", "ports": [1, 2]}
    assert listed(tool(), tool(region="eu", mode="read", tags=["a", "b"], retries=3)) == []
    assert listed(tool(path="out.txt", config=own)) == []
    assert listed(tool("desk_tools.Remover", path="tmp.txt")) == []
    # The same text in another field, another class, or next to the values of another call.
    assert listed(tool(target="out.txt")) == [("target", "out.txt")]
    assert listed(tool("desk_tools.Remover", path="out.txt")) == [("path", "out.txt")]
    assert listed(tool(path="out.txt", mode="delete", config=own)) == [("mode", "delete")]
    assert listed(tool(path="out.txt", config=own | {"host": "evil.example"})) == [
        ("config.host", "evil.example")
    ]
    assert listed(tool(retries=True)) == [("retries", "true")]
    # Without the entry point, nothing but the class's own defaults is known.
    found = effects(crew_with(tool(path="out.txt")))
    assert [(one.kind, one.name) for one in found] == [("module", "desk_tools"), ("file", "out.txt")]


def test_a_class_of_the_same_name_in_another_module_gets_nothing_from_the_code(project: Path) -> None:
    (project / "vendor.py").write_text(TOOLS)
    (project / "desk.py").write_text(DESK + "\nimport vendor\n")
    assert listed(tool("vendor.FileTool", path="out.txt")) == [("path", "out.txt")]


def test_consent_is_bound_to_tool_field_and_value(project: Path) -> None:
    (reads,) = effects(crew_with(tool(path="a.txt", mode="read")), "desk:build")
    request: Any = {"accepted_effects": [reads.key]}

    def missing(*tools: Mapping[str, Any]) -> list[str]:
        return [str(one) for one in unaccepted(effects(crew_with(*tools), "desk:build"), request)]

    assert missing(tool(path="a.txt", mode="read", current_usage_count=7)) == []
    assert missing(tool("desk_tools.Remover", path="a.txt", mode="read"))
    assert missing(tool(target="a.txt", mode="read"))
    assert missing(tool(path="b.txt", mode="read"))
    # Another value next to it, even one that needs no consent alone.
    assert missing(tool(path="a.txt", mode="delete"))
    assert missing(tool(path="a.txt", mode="read", retries=4))
    assert missing(tool(path="a.txt", mode="read", shell=True))


def test_a_long_value_is_shortened_and_bound_to_all_of_it(project: Path) -> None:
    texts = ["echo " + "a" * 5_000 + middle + "a" * 5_000 + " end" for middle in ("b", "c")]
    one, other = (effects(crew_with(tool(script=text)), "desk:build")[0] for text in texts)
    assert one.name == other.name and one.key != other.key
    assert len(one.name) < 300 and "(10,010)" in one.name and one.name.endswith(" end")


def test_the_value_of_a_secret_field_is_not_shown(project: Path) -> None:
    config = {"dbPassword": "hunter2", "apiKey": "hunter3", "secrets": {"prod": "hunter4"}}
    found = effects(crew_with(tool(config=config)), "desk:build")
    assert [(one.field, one.name) for one in found] == [
        ("config.dbPassword", "[redacted]"),
        ("config.apiKey", "[redacted]"),
        ("config.secrets.prod", "[redacted]"),
    ]
    assert "hunter" not in repr(found)
    # At the top, such a field is not restored at all.
    assert listed(tool(token="k-1")) == []
    # No name above hides where something goes.
    assert listed(tool(a={"secrets": {"host": "evil.example"}, "tokenizer": "x"})) == [
        ("a.secrets.host", "evil.example"),
        ("a.tokenizer", "x"),
    ]


def test_the_same_text_of_a_path_is_not_the_same_path(project: Path) -> None:
    given = {"host": "own.example", "ports": [1, 2]}
    (project / "desk.py").write_text(
        "from desk_tools import FileTool\nFileTool(config={'a.b': 'x', 'c': {'d': 'y'}})\n"
    )
    assert listed(tool(config={"a.b": "x", "c": {"d": "y"}})) == []
    assert listed(tool(config={"a": {"b": "x"}, "c.d": "y"})) == [
        ("config.a.b", "x"),
        ('config.["c.d"]', "y"),
    ]
    assert len(listed(tool(config=given))) == 3


def test_a_tool_inside_a_tool_is_checked_as_well(project: Path) -> None:
    (project / "other.py").write_text(TOOLS)
    inner = tool("other.FileTool", cache_function="os.system", args_schema={"title": "x"}, path="x")
    crew = crew_with(tool(wrapped=[{"a": inner}]))
    found = effects(crew, "desk:build")
    assert ("module", "other") in [(one.kind, one.name) for one in found]
    assert ("other.FileTool", "path") in [(one.tool, one.field) for one in found]
    (clean,) = clean_crew(crew, may_import, {})[0]["agents"][0]["tools"]
    assert clean["wrapped"] == [{"a": tool("other.FileTool", path="x")}]
    for kind in ("os.system", "desk_tools.Agent", "desk_tools.missing", "nowhere.Tool", "FileTool", 5):
        for nested in (crew_with(tool(wrapped={"tool_type": kind})), crew_with({"tool_type": kind})):
            with pytest.raises(Refused):
                clean_crew(nested, may_import, {})


def test_an_accepted_class_says_nothing_about_others_of_its_module(project: Path) -> None:
    (one,) = [found for found in effects(crew_with(tool())) if found.kind == "module"]
    (other,) = [found for found in effects(crew_with(tool("desk_tools.Remover"))) if found.kind == "module"]
    assert one.name == other.name and one.key != other.key


def test_the_composite_description_of_older_versions_is_read(project: Path) -> None:
    composite = "Tool Name: files\nTool Arguments: {'a': 1}\nTool Description: %s"
    assert listed(tool() | {"description": composite % "Reads."}) == []
    assert listed(tool() | {"description": composite % "Deletes."}) == [("description", "Deletes.")]


@pytest.mark.parametrize(
    ("model", "providers"),
    [
        ({"model": "gpt-4o"}, ["openai"]),
        ({"model": "claude-3-5-sonnet"}, ["anthropic"]),
        ({"model": "gpt-4o", "llm_type": "anthropic", "provider": "openai"}, ["openai", "anthropic"]),
        (None, ["openai"]),
    ],
)
def test_the_host_of_a_model_is_the_one_that_the_engine_calls(
    project: Path, model: Any, providers: list[str]
) -> None:
    crew = crew_with()
    crew["agents"][0]["llm"] = model
    found = effects(crew, "desk:build", OPENAI_API_KEY="x", ANTHROPIC_API_KEY="y")
    assert [one.name for one in found if one.kind == "host"] == providers
    assert {one.name for one in found if one.kind == "key"} == {f"{one.upper()}_API_KEY" for one in providers}


@pytest.mark.parametrize("depth", [20, 400])
def test_what_is_too_deep_is_listed_or_refused(project: Path, depth: int) -> None:
    value: Any = {"host": "evil.example"}
    for _ in range(depth):
        value = {"a": [value]}
    crew = crew_with(tool(config=value))
    if depth < 50:
        assert any("evil.example" in one.name for one in effects(crew, "desk:build"))
    else:
        with pytest.raises(Refused):
            effects(crew, "desk:build")
