"""A project's files: folders of imports, environment file and its keys, and interpreter. Nothing is run."""

import ast
import ipaddress
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from io import StringIO
from itertools import islice
from pathlib import Path
from urllib.parse import unquote, urlsplit

from django.conf import settings
from dotenv import dotenv_values
from dotenv.variables import parse_variables

from viewer.engines import DEFAULT, all_engines, engine_named
from viewer.engines.entry_points import EntryPoint, parsed_module
from viewer.host_requests import CheckProjectPaths, ProjectPaths
from viewer.messages.message import UserFacingError, UserMessage
from viewer.redaction.names import secrets_of
from viewer.stores import saver_in
from viewer.validation import content_at, content_of, is_storable

# The folder that a project's imports resolve from, found by reading its source. Nothing is imported.
#
# Projects that are run from ``src/<name>`` import their siblings by bare names (``from tools.search
# import``). Such a name resolves from neither the project's folder nor its ``src``:
#
# newsroom/
# pyproject.toml
# src/newsroom/           <- the folder
# main.py             from tools.search import Search
# tools/search.py


NO_PACKAGES = {"src", "tests", "docs"}
MAX_PACKAGES = 100
MAX_FILES = 50
MAX_SOURCE_BYTES = 256 * 1024


def import_folder(project: Path, location: Path) -> Path:
    """The package of the project whose modules import their siblings by bare names.

    If there are several, the one that contains the location; if there is none, the project's folder.
    """
    roots = [project, project / "src"]
    found = [package for package in _packages(roots) if _imports_siblings(package, roots)]
    around = [package for package in found if location.is_relative_to(package)]
    if len(around or found) == 1:
        return (around or found)[0]
    return project


def _packages(roots: list[Path]) -> Iterator[Path]:
    for root in roots:
        for name in _names(root):
            folder = root / name
            is_own = name.isidentifier() and name not in NO_PACKAGES and not folder.is_symlink()
            if is_own and folder.is_dir() and not (folder / "pyvenv.cfg").exists():
                yield folder


def _imports_siblings(package: Path, roots: list[Path]) -> bool:
    """Whether a module of the package imports a sibling that only the package itself resolves."""
    names = (name.removesuffix(".py") for name in _names(package))
    siblings = {name for name in names if _resolves(package, name)}
    siblings -= sys.stdlib_module_names
    siblings -= {name for name in siblings if any(_resolves(root, name) for root in roots)}
    files = [package / name for name in _names(package) if name.endswith(".py")][:MAX_FILES]
    return bool(siblings) and any(name in siblings for file in files for name in _imported(file))


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in islice(entries, MAX_PACKAGES))
    except OSError:
        return []


def _resolves(root: Path, name: str) -> bool:
    if not name.isidentifier():
        return False
    folder = root / name
    return (root / f"{name}.py").is_file() or any(one.endswith(".py") for one in _names(folder))


def _imported(file: Path) -> Iterator[str]:
    """The first names of the file's absolute imports."""
    tree = parsed_module(content_at(file, MAX_SOURCE_BYTES) or b"")
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]


# A project's environment file.


MAX_BYTES = 512 * 1024
# The variables of the server that runs inherit: user, programs, language and network. None holds a key.
OF_HOME = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
NO_PROXY = ("NO_PROXY", "no_proxy")
INHERITED = (
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"),
    *(*OF_HOME, *CERTIFICATES, *PROXIES, *NO_PROXY),
)


def read_values(path: str, *, is_of_runs: bool = False) -> dict[str, str]:
    """Return the variables that the file sets; none without a path. Raises OSError or ValueError.

    A JSON file sets those of its object ``env``. With ``${NAME}``, the file can name variables of the server;
    with ``is_of_runs``, only those that runs inherit, since a run may have written the file.
    """
    if not path:
        return {}
    if path.endswith(".json"):
        return _values_in_json(Path(path))
    if not Path(path).exists():
        return {}
    text = StringIO(content_of(path, MAX_BYTES).decode())
    known = {name: os.environ[name] for name in INHERITED if name in os.environ} if is_of_runs else os.environ
    found: dict[str, str] = {}
    for name, value in dotenv_values(stream=text, interpolate=False).items():
        if value is not None:
            parts = parse_variables(value)
            found[name] = "".join(part.resolve({**known, **found}) for part in parts)
    return found


def _values_in_json(path: Path) -> dict[str, str]:
    """The variables in a project's configuration, as texts."""
    found = json.loads(content_of(str(path), MAX_BYTES))
    values = found.get("env") if isinstance(found, dict) else None
    if not isinstance(values, dict):
        return {}
    return {name: str(value) for name, value in values.items() if isinstance(value, str | int | float)}


def secrets_at(path: str) -> tuple[str, ...]:
    """Return the secrets in the file as it is now. Raises OSError or ValueError."""
    if not path:
        return ()
    status = Path(path).stat()
    return _secrets_at(path, (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino))


@lru_cache(maxsize=32)
def _secrets_at(path: str, _version: tuple[int, ...]) -> tuple[str, ...]:
    values = read_values(path)
    return secrets_of(values)


# Where the keys of the environment file go: to the addresses of known vendors, or to those that it has.


@dataclass(frozen=True, slots=True)
class Vendor:
    """The address of a vendor's interface, and the variables in which its clients look for another one."""

    address: str
    variables: tuple[str, ...]


# By the beginning of their variables. quality/fuzz/key_clients.py tries them with real clients.
VENDORS = {
    "OPENAI": Vendor("https://api.openai.com/v1", ("OPENAI_BASE_URL", "OPENAI_API_BASE")),
    "ANTHROPIC": Vendor(
        "https://api.anthropic.com", ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE", "ANTHROPIC_API_URL")
    ),
    "OPENROUTER": Vendor("https://openrouter.ai/api/v1", ("OPENROUTER_BASE_URL", "OPENROUTER_API_BASE")),
    "DEEPSEEK": Vendor("https://api.deepseek.com/v1", ("DEEPSEEK_BASE_URL", "DEEPSEEK_API_BASE")),
}
KEY_ENDINGS = re.compile(r"([A-Z][A-Z0-9_]{0,60}?)_(?:API_KEY|API_TOKEN|AUTH_TOKEN|ACCESS_TOKEN|KEY|TOKEN)")
ADDRESS_ENDINGS = ("BASE_URL", "API_BASE", "API_URL", "ENDPOINT", "URL")


def key_stem(variable: str) -> str:
    """The beginning that the variables of one vendor share, such as ``OPENAI``; empty for another name."""
    found = KEY_ENDINGS.fullmatch(variable)
    return found[1] if found else ""


def address_variables(stem: str, values: Mapping[str, str]) -> tuple[str, ...]:
    """The variables that clients follow: those of the vendor, else those that the environment file sets."""
    if vendor := VENDORS.get(stem):
        return vendor.variables
    return tuple(name for ending in ADDRESS_ENDINGS if values.get(name := f"{stem}_{ending}"))


def key_address(variable: str, values: Mapping[str, str]) -> str:
    """The address to which the clients send this key; empty if that is not known.

    Raises ValueError if the environment file has several, or one to which no key may go.
    """
    stem = key_stem(variable)
    given = {checked_address(values[name]) for name in address_variables(stem, values) if values.get(name)}
    if len(given) > 1:
        raise ValueError(" ".join(sorted(given)))
    return given.pop() if given else VENDORS[stem].address if stem in VENDORS else ""


def checked_address(text: str) -> str:
    """The address without a slash at its end. Raises ValueError if no key may go there.

    It is https, or http on this machine, and has neither a password, a query nor ``..``.
    """
    parts = urlsplit(text)
    host = parts.hostname or ""
    is_plain = parts.scheme == "http" and _is_loopback(host)
    is_strange = parts.username is not None or parts.query or parts.fragment or ".." in unquote(parts.path)
    # Reading the port raises ValueError for an invalid one.
    if not host or parts.port == 0 or is_strange or not re.fullmatch(r"[!-\[\]-~]+", text):
        raise ValueError(text)
    if parts.scheme != "https" and not is_plain:
        raise ValueError(text)
    return text.rstrip("/")


def _is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


# Propose the project that a location's runs belong to, from the files around it. Nothing is run.


# The search upwards is bounded: a location may be anywhere.
MAX_FOLDERS_UP = 12
MAX_FOLDERS_UP_FOR_ENVIRONMENT = 3
PROJECT_FILES = ("pyproject.toml", "langgraph.json")
INTERPRETERS = (".venv/bin/python", "venv/bin/python", ".venv/Scripts/python.exe", "venv/Scripts/python.exe")


@dataclass(frozen=True, slots=True)
class ProposedProject:
    """What was found around a location. ``None`` and an empty tuple mean that nothing was found.

    ``is_found`` says whether anything marks ``folder`` as a project's.
    """

    folder: Path
    interpreter: Path | None
    environment_file: Path | None
    entry_points: tuple[EntryPoint, ...]
    is_found: bool = True


def propose_project(location_path: Path, engine: str = DEFAULT) -> ProposedProject:
    """Return the project around a location, for a person to confirm. Only reads files."""
    if of_saver := saver_in(str(location_path))[0]:
        location_path = Path(of_saver) / PROJECT_FILES[0]
    marked = _marked_folder(location_path)
    project = marked or location_path.absolute().parent
    folder = import_folder(project, location_path.absolute())
    return ProposedProject(
        folder=folder,
        interpreter=find_interpreter(project),
        environment_file=find_environment_file(folder, engine) or find_environment_file(project, engine),
        entry_points=engine_named(engine).find_entry_points(folder),
        is_found=marked is not None,
    )


def find_environment_file(folder: Path, engine: str = DEFAULT) -> Path | None:
    """Return the environment file that the project's configuration names, else its ``.env``, if any."""
    named = engine_named(engine).environment_file(folder)
    return next((path for path in (named, folder / ".env") if path is not None and _is_file(path)), None)


def _marked_folder(location_path: Path) -> Path | None:
    """Return the nearest parent folder with one of PROJECT_FILES, else with an environment, else None.

    Never the location itself: its files came with the checkpoints.
    """
    start = location_path.absolute()
    upwards = [folder for folder in start.parents[:MAX_FOLDERS_UP] if folder.parent != folder]
    for marks in (PROJECT_FILES, INTERPRETERS):
        for folder in upwards:
            if any(_is_file(folder / mark) for mark in marks):
                return folder
    return None


def find_interpreter(folder: Path) -> Path | None:
    """Return the Python of the folder's environment, else of a parent's environment that has the engine.

    The link is not resolved: the interpreter that it points to does not use the environment.
    """
    for above in (folder, *folder.parents[:MAX_FOLDERS_UP_FOR_ENVIRONMENT]):
        for python in (above / name for name in INTERPRETERS):
            can_run = _is_file(python) and os.access(python, os.X_OK)
            if can_run and (above == folder or engine_version(python)):
                return python
    return None


def python_version(interpreter: Path) -> str:
    """Return the Python version of its environment, such as ``3.11.2``; empty if it is not recorded."""
    file = interpreter.parent.parent / "pyvenv.cfg"
    lines = (content_at(file, 10_000, follows_links=True) or b"").decode(errors="replace").splitlines()
    settings = {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in lines)}
    return settings.get("version") or settings.get("version_info", "")


def engine_version(interpreter: Path, engine: str = "") -> str:
    """Return the version of an engine in the interpreter's environment; without ``engine``, of any engine.

    Empty if none is installed there.
    """
    distributions = [one.distribution for one in all_engines() if engine in ("", one.name)]
    environment = interpreter.parent.parent
    folders = [*environment.glob("lib/python3*/site-packages"), environment / "Lib" / "site-packages"]
    for folder in folders:
        for name in distributions:
            for installed in sorted(folder.glob(f"{name}-*.dist-info")):
                return installed.name.removeprefix(f"{name}-").removesuffix(".dist-info")
    return ""


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


# The paths of a project that a person typed.


INTERPRETER_NAME = re.compile(r"(python|pypy)[0-9.]*(\.exe)?")


class UnusablePath(UserFacingError):
    """The path cannot be one of a project."""


def check_paths(request: CheckProjectPaths) -> ProjectPaths:
    """Return the paths with links followed, and by field why one cannot be used."""
    checks: dict[str, Callable[[str], Path]] = {
        "folder": _checked_folder,
        "interpreter": partial(_checked_interpreter, anywhere=request.anywhere),
        "environment_file": _checked_environment_file,
    }
    paths, errors = dict[str, str](), dict[str, UserMessage]()
    for name, check in checks.items():
        typed = paths[name] = getattr(request, name)
        try:
            paths[name] = str(check(typed)) if typed else ""
        except UnusablePath as error:
            errors[name] = error.message
        except OSError:
            # A name that is too long, or a folder that may not be searched.
            errors[name] = UserMessage("project.unusable_path")
    return ProjectPaths(**paths, errors=errors)


def _checked_folder(text: str) -> Path:
    folder = _inside(_resolved(text))
    if not folder.is_dir():
        raise UnusablePath("project.no_folder")
    return folder


def _checked_interpreter(text: str, *, anywhere: bool) -> Path:
    # Not resolved: an environment's interpreter is a link to one that does not know its packages.
    interpreter = _absolute(text)
    if not anywhere:
        _inside(_resolved(str(interpreter.parent)))
    if not interpreter.is_file():
        raise UnusablePath("project.no_file")
    if not os.access(interpreter, os.X_OK):
        raise UnusablePath("project.not_executable")
    if not INTERPRETER_NAME.fullmatch(interpreter.name):
        raise UnusablePath("project.no_interpreter")
    return interpreter


def _checked_environment_file(text: str) -> Path:
    file = _inside(_resolved(text))
    if not file.is_file():
        raise UnusablePath("project.no_environment_file")
    return file


def _absolute(text: str) -> Path:
    if "\0" in text or not Path(text).is_absolute():
        raise UnusablePath("project.relative_path")
    # Removes ".." without following links.
    return Path(os.path.normpath(text))


def _resolved(text: str) -> Path:
    path = _absolute(text).resolve()
    # A link may lead to names that are not UTF-8.
    if not is_storable(path):
        raise UnusablePath("project.unusable_path")
    return path


def _inside(path: Path) -> Path:
    if not any(path.is_relative_to(root) for root in settings.CHECKPOINT_ROOTS):
        roots = ", ".join(str(root) for root in settings.CHECKPOINT_ROOTS)
        raise UnusablePath("project.outside", roots=roots)
    return path
