"""Keys that stay with Forkline: a run gets placeholders, and the key proxy puts the keys into its requests.

A project names variables of its environment file, each with the address to which its key may go
(``Project.kept_keys``). For each job, a record in the data folder says which placeholders belong to which
variable and address. It has neither a key nor a placeholder. The proxy (``key_proxy``) is a separate
process, because runs outlive the worker. It ends when no job needs it. The worker that follows a job restarts
it on the same port if its parent was killed as well.
"""

import hashlib
import json
import logging
import os
import re
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings

from viewer.data_folder.locks import FileLock
from viewer.host.confined import closed_paths, confined, is_within, open_to_runs
from viewer.host.jobs.files import JobStorage, make_private_folder, write_private_file
from viewer.host.permitted import refuse_project
from viewer.host.projects import NO_PROXY, PROXIES, address_variables, key_address, key_stem, read_values
from viewer.host_requests import JobRefused, KeepableKey
from viewer.models import Project
from viewer.redaction.known_secrets import forms_of
from viewer.redaction.names import secrecy_of

# The environment file, as the project's runs get it: never one that a run has put in its place.


def values_of(project: Project) -> tuple[dict[str, str], list[int]]:
    """The variables of the file, and what identifies it: its device and number; nothing if it is missing.

    Raises OSError, ValueError, and JobRefused if an isolated run has replaced it by a link to another one.
    """
    file = Path(project.environment_file)
    if not project.environment_file:
        return {}, []

    def read(*, is_of_runs: bool = False) -> tuple[dict[str, str], list[int]]:
        try:
            # ``read_values`` refuses a pipe.
            descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return {}, []
        status = os.fstat(descriptor)
        os.close(descriptor)
        values = read_values(str(file), is_of_runs=is_of_runs)
        # Raises UnicodeEncodeError for half of a surrogate pair.
        text = os.fsencode("".join([*values, *values.values()]))
        if b"\0" in text or any("=" in name for name in values):
            raise ValueError("No process can have such a variable.")
        return values, [status.st_dev, status.st_ino]

    if open_to_runs(file) is None:
        # No isolated run can replace it.
        return read()
    refuse_other_file(project)
    # The link may be made now.
    return confined(file, partial(read, is_of_runs=True))


def refuse_other_file(project: Project) -> None:
    """Raise JobRefused if the environment file leads into what is closed to the project's runs.

    They may write the project's folder, and could replace the file by a link to the keys of another program.
    """
    if not project.environment_file:
        return
    real = os.path.realpath(project.environment_file)
    own = os.path.realpath(project.folder)
    is_in_project = is_within(os.path.normpath(project.environment_file), os.path.normpath(project.folder))
    leads_out = is_in_project and not is_within(real, own)
    if leads_out or any(is_within(real, path) for path in closed_paths(project, [], [own])):
        raise JobRefused("isolation.environment_file_leads_out", path=project.environment_file)


# The keys that can stay.


# A shorter value could be a part of any text.
MIN_KEY = 8
KEY = re.compile(r"[!-~]{8,4096}")


def keepable_keys(project: Project) -> list[KeepableKey]:
    """The keys of the environment file that can stay with Forkline, without their values.

    None if the file cannot be read. Raises JobRefused if this machine must not open it.
    """
    refuse_project(project)
    try:
        values = values_of(project)[0]
    except (OSError, ValueError):
        return []
    found = []
    for name, value in sorted(values.items()):
        if key_stem(name) and secrecy_of(name) and KEY.fullmatch(value):
            with suppress(ValueError):
                if address := key_address(name, values):
                    found.append(KeepableKey(name, address))
    return found


# What a run gets instead of its keys.


# In processes of the project that are no run, such as the one that reads its checkpoint saver.
NO_KEY = "sk-forkline-this-process-gets-no-key"
# Only what vendors put before their keys: a key may consist of words.
PREFIX = re.compile(r"sk-(?:(?:proj|svcacct|admin|ant|or)-)?")
LOOPBACK = "127.0.0.1"


def without_keys(values: Mapping[str, str], project: Project) -> dict[str, str]:
    """The values of the environment file without the keys that stay with Forkline."""
    keys = {values[name]: NO_KEY for name in project.kept_keys if values.get(name)}
    return {
        name: NO_KEY if name in project.kept_keys else _replaced(value, keys)
        for name, value in values.items()
    }


def _replaced(value: str, by_key: Mapping[str, str]) -> str:
    """The value without the keys that it is or contains, in every form that redaction knows."""
    for key in sorted(by_key, key=len, reverse=True):
        if value == key:
            return by_key[key]
        if len(key) >= MIN_KEY:
            forms = sorted(set(forms_of(key)), key=len, reverse=True)
            value = re.sub("|".join(map(re.escape, forms)), by_key[key], value, flags=re.IGNORECASE)
    return value


def placeholder_for(key: str) -> str:
    """A random text that clients accept as a key, and that redaction always finds."""
    found = PREFIX.match(key)
    return f"{found[0] if found else 'sk-'}forkline-{secrets.token_hex(24)}"


def keep_keys(storage: JobStorage, project: Project, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that replace the keys of a job and lead to the proxy; none if the project keeps no keys.

    Stores the job's record and starts the proxy. The caller holds the runner's lock, without which a record
    does not count. Raises JobRefused, OSError.
    """
    if not project.kept_keys:
        return {}
    values, identity = values_of(project)
    routes: dict[str, dict[str, Any]] = {}
    placeholders: dict[str, str] = {}
    for variable, address in sorted(project.kept_keys.items()):
        key = values.get(variable, "")
        refuse_other_address(variable, address, values)
        if not KEY.fullmatch(key):
            raise JobRefused("keys.unusable", variable=variable)
        placeholders[key] = placeholders.get(key) or placeholder_for(key)
        route = routes.setdefault(key_stem(variable).lower(), {"address": address, "keys": {}})
        route["keys"][variable] = digest_of(placeholders[key])
    record = {
        "environment_file": project.environment_file,
        "identity": identity,
        "lock": storage.runner_lock,
        "routes": routes,
    }
    make_private_folder(folder())
    write_private_file(record_file(storage.name), json.dumps(record).encode())
    port = ensure_proxy()
    variables = {
        name: given for name, value in values.items() if (given := _replaced(value, placeholders)) != value
    }
    for name in routes:
        url = f"http://{LOOPBACK}:{port}/{storage.name}/{name}"
        variables |= dict.fromkeys(address_variables(name.upper(), values), url)
    if any(environment.get(name) for name in PROXIES):
        # Clients would ask the network's proxy for this machine.
        known = environment.get("NO_PROXY") or environment.get("no_proxy") or ""
        variables |= dict.fromkeys(NO_PROXY, ",".join(filter(None, [known, LOOPBACK])))
    return variables


def refuse_other_address(variable: str, address: str, values: Mapping[str, str]) -> None:
    """Raise JobRefused unless the environment file and the project's row have the same address for a key.

    Who can write only one of them cannot send the key elsewhere.
    """
    try:
        found = key_address(variable, values)
    except ValueError as error:
        raise JobRefused("keys.bad_address", variable=variable, address=str(error)) from None
    if not found or found != address:
        raise JobRefused("keys.other_address", variable=variable, address=address, found=found or "-")


def digest_of(placeholder: str) -> str:
    """What a record has of a placeholder."""
    return hashlib.sha256(placeholder.encode()).hexdigest()


# The proxy's process. Its port, its lock and the records of jobs are in one folder.


# After a start that failed.
SECONDS_BETWEEN_STARTS = 2.0
ROOT = Path(__file__).resolve().parents[3]
# What the proxy inherits: how the network is reached, and which certificates are trusted.
INHERITED = (*PROXIES, *NO_PROXY, "SSL_CERT_FILE", "SSL_CERT_DIR", "PATH", "LANG", "LD_LIBRARY_PATH")
logger = logging.getLogger(__name__)


def folder() -> Path:
    """The folder of the proxy, readable by the owner only."""
    return Path(settings.DATA_DIR) / "key_proxy"


def record_file(job: str) -> Path:
    """The record of a job."""
    return folder() / f"{job}.json"


def live_records() -> Iterator[Path]:
    """The records of jobs whose runner, or a process that it started, is alive."""
    for path in folder().glob("*.json"):
        with suppress(OSError, ValueError, KeyError):
            if FileLock(Path(json.loads(path.read_bytes())["lock"])).is_held():
                yield path


def ensure_proxy() -> int:
    """Start the proxy if it is not running. Return its port. Raises OSError.

    It listens before it has started, so no request is refused. A new one listens where the last one did, if
    jobs have that address.
    """
    with ExitStack() as opened:
        opened.enter_context(FileLock(folder() / "start.lock").held(wait=True))
        lock, known = FileLock(folder() / "proxy.lock").acquire(), _last_port()
        if lock is None:
            if not known:
                raise OSError("The port of the key proxy is not known.")
            return known
        opened.callback(os.close, lock)
        has_jobs = next(live_records(), None) is not None
        listener = opened.enter_context(socket.socket())
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((LOOPBACK, known if has_jobs else 0))
        except OSError:
            logger.warning("another program listens on port %d of the key proxy", known)
            listener.bind((LOOPBACK, 0))
        listener.listen(256)
        port = int(listener.getsockname()[1])
        write_private_file(folder() / "port", str(port).encode())
        log = opened.enter_context(open(folder() / "log", "wb"))
        subprocess.Popen(
            [
                *(sys.executable, "-m", "viewer.host.jobs.key_proxy"),
                *(str(folder()), str(lock), str(listener.fileno())),
            ],
            cwd=ROOT,
            env={name: os.environ[name] for name in INHERITED if name in os.environ},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=(lock, listener.fileno()),
        )
        return port


def proxy_address() -> tuple[str, int]:
    """Where the proxy listens, after ``ensure_proxy``."""
    return LOOPBACK, _last_port()


def _last_port() -> int:
    """The port of the last proxy; 0 if it is not known."""
    with suppress(FileNotFoundError, ValueError):
        return int((folder() / "port").read_text())
    return 0


def restart_proxy(job: str) -> None:
    """Start the proxy again if it was killed while this job runs. Called repeatedly. Never raises OSError."""
    log = folder() / "log"
    try:
        if FileLock(folder() / "proxy.lock").is_held() or not record_file(job).exists():
            return
        # The clock may have been set back since.
        if not log.exists() or abs(time.time() - log.stat().st_mtime) > SECONDS_BETWEEN_STARTS:
            logger.warning("the key proxy has ended, and is started again")
            log.touch(mode=0o600)
            ensure_proxy()
    except OSError:
        # The run goes on, and has to be followed.
        logger.exception("starting the key proxy again")
