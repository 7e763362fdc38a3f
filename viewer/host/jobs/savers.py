"""The processes that read the checkpoint savers of projects, one for each location.

Such a process runs the project's code in its interpreter, so it starts only if a person has permitted that.
It ends with this process, after some minutes, and if the permission or the project changes.
"""

import atexit
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import zstandard
from django.conf import settings

from viewer.engines import engine_named, engine_of
from viewer.engines.protocol import kind_of
from viewer.engines.runner_protocol import Request
from viewer.host.jobs.environment import runnable, runner_environment, store_variables
from viewer.host.jobs.events import redactor_of
from viewer.host.jobs.files import JobStorage
from viewer.host.jobs.process_tree import kill_session
from viewer.host.jobs.sandbox import refuse_isolated
from viewer.host.locations.sources import NotConfigured, read_limits, register_savers
from viewer.host.permitted import refuse_source
from viewer.host.project_secrets import secrets_for
from viewer.host.reading.location_reader import LocationAddress, open_reader
from viewer.host_requests import CopyStore, HostRefusal, JobRefused, NotReadable, ask
from viewer.messages.catalog import CATALOG
from viewer.messages.message import UserMessage, message_from, redacted_message
from viewer.models import Checkpoint, Location, Project
from viewer.redaction import MARKER
from viewer.stores import SaverAddress, saver_in
from viewer.stores.protocol import Entry, LocationUnreadable, Packed, compressed

PROGRAM = "saver_runner.py"
SECONDS_TO_END = 1
# How long a thread may take to be copied, or checkpoints to be deleted.
MAX_SECONDS = 120
_lock = threading.Lock()


@dataclass(eq=False)
class SaverProcess:
    """A process that listens on a socket in ``folder``, until the pipe ``end`` is closed."""

    started_with: Any
    child: subprocess.Popen[bytes]
    folder: Path
    end: int

    def close(self) -> None:
        """End the process, and those that the project's code has started in its session."""
        if self.child.poll() is None:
            kill_session(self.child)
        with suppress(OSError):
            os.close(self.end)
        with suppress(subprocess.TimeoutExpired):
            self.child.wait(timeout=SECONDS_TO_END)
        shutil.rmtree(self.folder, ignore_errors=True)


_processes: dict[int, SaverProcess] = {}


def saver_address(location: Location) -> SaverAddress:
    """The socket of the process that reads a location's saver, started if necessary.

    Raises LocationUnreadable if its project may not run.
    """
    if location.project_id is not None:
        # Another process may have changed the project, or the permission.
        location.refresh_from_db(fields=["project"])
    with _lock:
        try:
            project = runnable(location.project)
            refuse_isolated(project)
            _folder, saver = saver_in(location.path)
            started_with = (project.folder, saver, *project.code[:2], runner_environment("", project))
        except JobRefused as refused:
            _end(location.pk)
            if location.project is None or not location.project.is_confirmed:
                raise LocationUnreadable("saver.not_permitted") from None
            raise LocationUnreadable(refused.message) from None
        known = _processes.get(location.pk)
        if known is None or known.started_with != started_with or known.child.poll() is not None:
            _end(location.pk)
            try:
                known = _processes[location.pk] = _started(location, started_with)
            except OSError as error:
                raise LocationUnreadable("saver.not_started", why=error.strerror or str(error)) from None
    return SaverAddress(str(known.folder / "saver"))


register_savers(saver_address)


def end_saver(location: Location) -> None:
    """End the process that reads a location's saver, if any: it reuses its list of threads for a while."""
    with _lock:
        _end(location.pk)


def is_in_saver(checkpoint: Checkpoint) -> bool:
    """Whether only the project's checkpoint saver has the checkpoint."""
    return checkpoint.location.is_only_read and not checkpoint.is_scratch


def copy_from_saver(storage: JobStorage, request: Request, checkpoint: Checkpoint | None) -> None:
    """Have the runner read a copy of the thread, if the checkpoint is in a project's saver.

    Raises JobRefused, OSError.
    """
    if checkpoint is None or not is_in_saver(checkpoint) or request["checkpoint"].get("stored"):
        return
    key = request["checkpoint"]["source"].rpartition("#")[2]
    copy_thread(checkpoint.location, key, storage.stored_copy)
    request["checkpoint"]["source"] = f"{storage.stored_copy}#{key}"


def copy_thread(location: Location, key: str, target: str) -> bytes:
    """Write the thread of a checkpoint to a new SQLite file, as the engine's own saver would.

    Return what the program printed. Raises JobRefused, OSError.
    """
    _folder, saver = saver_in(location.path)
    Path(target).unlink(missing_ok=True)
    # It has the real values.
    return output_of(
        location, lambda project, end: ["copy", project.folder, saver, end, key, target], umask=0o077
    )


def output_of(
    location: Location, arguments: Callable[[Project, str], list[str]], given: bytes = b"", umask: int = -1
) -> bytes:
    """What the program prints with these arguments, in the interpreter of the location's project.

    ``arguments`` get the number of a pipe that is closed if this process is killed. Raises JobRefused and
    OSError.
    """
    project = runnable(location.project)
    refuse_isolated(project)
    # If this process is killed, the program ends as well, before a job's files are removed.
    reading, end = os.pipe()
    try:
        with subprocess.Popen(
            [project.interpreter, str(_program(location)), *arguments(project, str(reading))],
            cwd=project.folder,
            env={**runner_environment("", project), **store_variables(location)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            umask=umask,
            pass_fds=(reading,),
        ) as program:
            try:
                output, _errors = program.communicate(given, timeout=MAX_SECONDS)
            except BaseException:
                kill_session(program)
                raise
    except subprocess.TimeoutExpired:
        raise JobRefused("saver.timed_out", most=MAX_SECONDS) from None
    finally:
        os.close(reading)
        os.close(end)
    if program.returncode:
        raise JobRefused(_reason(output, project))
    return output


def _reason(output: bytes, project: Project) -> UserMessage:
    """The message that a process has printed, without the secrets of its project."""
    try:
        found = message_from(msgspec.json.decode(output))
    except (msgspec.MsgspecError, UnicodeError):
        return UserMessage("saver.ended")
    if found is None or found.code not in CATALOG:
        return UserMessage("saver.malformed")
    return redacted_message(found, redactor_of(project))


def _program(location: Location) -> Path:
    return Path(engine_named(location.engine).runner.program).with_name(PROGRAM)


def _end(key: int) -> None:
    if (process := _processes.pop(key, None)) is not None:
        process.close()


def _started(location: Location, started_with: Any) -> SaverProcess:
    """Start a process, which answers once it has imported the project. Raises OSError."""
    project_folder, saver, interpreter, _file, environment = started_with
    folder = Path(tempfile.mkdtemp(prefix="forkline-"))
    reading, end = os.pipe()
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(folder / "saver"))
            listener.listen()
            child = subprocess.Popen(
                [interpreter, str(_program(location)), "serve", project_folder, saver, str(reading)],
                cwd=project_folder,
                env=environment,
                stdin=listener.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                umask=settings.USERS_UMASK,
                pass_fds=(reading,),
            )
    except OSError:
        os.close(end)
        shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        os.close(reading)
    return SaverProcess(started_with, child, folder, end)


@atexit.register
def end_savers() -> None:
    """End all processes."""
    with _lock:
        for key in list(_processes):
            _end(key)


# Copies of what a run from a checkpoint needs of its store, from which another host starts it.


# No copy of a store is larger (forkline_langgraph/scratch_store.py).
MAX_STORE_BYTES = 32 * 1024**2
# What was redacted in a checkpoint, could not be decoded, or is shown without its bytes.
HIDDEN = re.compile(rb'%s|"__opaque__"|"__type__":"(bytes|numpy\.ndarray)"' % re.escape(MARKER).encode())


class _Written(msgspec.Struct):
    """What a program says about the SQLite file that it has written."""

    checkpoints: int


def sends_store(checkpoint: Checkpoint) -> bool:
    """Whether a run on another host starts from a copy of what it needs of the checkpoint's store."""
    return kind_of(engine_of(checkpoint.location), checkpoint.entity).sends_store


def source_in(store: str, checkpoint: Checkpoint) -> str:
    """The source of a checkpoint in this copy of its store."""
    return f"{store}#{checkpoint.source.rpartition('#')[2]}"


def store_of_other_host(checkpoint: Checkpoint) -> bytes:
    """The copy that the host of the checkpoint makes. Raises JobRefused."""
    try:
        data = ask(CopyStore(checkpoint.pk))
    except HostRefusal as refused:
        raise JobRefused(refused.message) from None
    try:
        # Any machine can write the reply.
        if 0 <= zstandard.frame_content_size(data) <= MAX_STORE_BYTES:
            return zstandard.ZstdDecompressor().decompress(data)
    except zstandard.ZstdError:
        pass
    raise JobRefused("saver.malformed")


def store_to_send(checkpoint: Checkpoint) -> bytes:
    """A compressed SQLite file with what a run from a checkpoint needs of its store. Raises NotReadable.

    Every checkpoint in it is read as those of a location are, and nothing may have to be redacted.
    """
    try:
        refuse_source(checkpoint)
        with TemporaryDirectory(prefix="forkline-") as folder:
            target = Path(folder).resolve() / "copied.sqlite"
            output = _written_store(checkpoint, str(target))
            _refuse_redacted(checkpoint, target, msgspec.json.decode(output, type=_Written).checkpoints)
            return compressed(target.read_bytes())
    except (JobRefused, LocationUnreadable, NotConfigured) as refused:
        raise NotReadable(refused.message) from None
    except OSError as error:
        raise NotReadable("saver.not_started", why=str(error.strerror or error)) from None
    except msgspec.MsgspecError:
        raise NotReadable("saver.malformed") from None


def _written_store(checkpoint: Checkpoint, target: str) -> bytes:
    store, _hash, key = checkpoint.source.rpartition("#")
    if is_in_saver(checkpoint):
        return copy_thread(checkpoint.location, key, target)
    request = {"store": store, "key": key, "id": checkpoint.checkpoint_id, "target": target}
    given = msgspec.json.encode(request)
    return output_of(checkpoint.location, lambda _project, end: ["send", end], given, umask=0o077)


def _refuse_redacted(checkpoint: Checkpoint, store: Path, count: int) -> None:
    """Raise NotReadable if a checkpoint in a store has a secret, or a value that cannot be searched.

    Raises LocationUnreadable, and JobRefused for the environment file.
    """
    location = checkpoint.location
    secrets = secrets_for(location.project)
    address = LocationAddress(store, read_limits(), [store.parent], "", secrets, location.engine)
    with open_reader(address) as reader:
        found = reader.index(checkpoint.run.outermost.key).snapshots
        read = reader.read_all([Entry(one.key, one.fingerprint, one.size) for one in found], 1)
        unpack = zstandard.ZstdDecompressor().decompress
        bodies = [unpack(one.data) for one in read if isinstance(one, Packed)]
    names = "".join(one.key for one in found)
    if len(bodies) != count or MARKER in names or any(HIDDEN.search(body) for body in bodies):
        raise NotReadable("other_host.redacted_store")
