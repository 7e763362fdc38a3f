"""Reads a project's checkpoint saver through ``list`` and ``get_tuple``, for a reader process or for a fork.

Nothing is written: before the project's code is imported, every class of savers gets methods that refuse to
write, and a ``setup`` that does nothing. No stored value is loaded: the saver gets a serializer that decodes
MessagePack and leaves each object as its bytes. A saver that does not use its serializer loads its values as
in a run of the project.

A request and its answer are MessagePack after a length of four bytes. The reader process checks the answers
(viewer/engines/langgraph/threads/saver.py): the project's code could send anything.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import json
import os
import selectors
import signal
import socket
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import ormsgpack

from forkline_langgraph import checkpoints, entry_points, scratch_store
from forkline_langgraph.checkpoints import InertObject, packed, unpacked
from forkline_runner import project
from forkline_runner.recorded import change_classes
from forkline_runner.reporting import Message, Refused, message

# The most seconds of one answer, a little more than the reader process waits. The system ends this process.
ANSWER_SECONDS = 31
# A new process imports the project's code as it is then.
MAX_AGE_SECONDS = 300
# The most checkpoints that are listed of all threads, and of one thread.
MAX_LISTED, MAX_ROWS = 200_000, 20_000
# The most bytes of a thread that is copied.
MAX_COPIED_BYTES = 2 * 1024**3
# Larger values are not sent with the list of a thread's checkpoints.
MAX_NAMING_BYTES = 4_096
# A list of all threads is used for this multiple of the time that it took, and at least for a second.
REUSE_FACTOR, MIN_REUSE_SECONDS = 20, 1.0
# The extension type of a value whose encoding is not MessagePack.
OPAQUE = 127
# The indexes of the writes that the engine itself makes (langgraph/checkpoint/base).
SPECIAL_INDEXES = {"__error__": -1, "__scheduled__": -2, "__interrupt__": -3, "__resume__": -4}
IN_MEMORY = "langgraph.checkpoint.memory"
WRITING = ("put", "delete", "prune", "copy", "drop", "clear")
Answer = dict[str, Any]


def main(arguments: Sequence[str]) -> int:
    """Serve or copy, as viewer/runners/saver_runner.py says. Return the exit status."""
    command, folder, saver, end, *others = arguments
    end_with_pipe(int(end))
    with contextlib.ExitStack() as stack:
        stack.callback(entry_points.close_loop)
        if command == "copy":
            key, target = others
            output = own_output()
            try:
                count = _copy(stack.enter_context(opened(folder, saver)), key, Path(target))
                os.write(output, json.dumps({"checkpoints": count}).encode())
            except (Exception, SystemExit) as error:
                os.write(output, json.dumps(_message_of(error)).encode())
                return 1
            return 0
        signal.alarm(ANSWER_SECONDS)
        try:
            reader: SaverReader | Message = stack.enter_context(opened(folder, saver))
        except (Exception, SystemExit) as error:
            # The reader process asks for the reason.
            reader = _message_of(error)
        signal.alarm(0)
        _serve(socket.socket(fileno=0), reader)
    return 0


def own_output() -> int:
    """Return the standard output. What the project's code prints is dropped, since it has no limit."""
    output, dropped = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(dropped, 1)
    os.close(dropped)
    return output


def end_with_pipe(end: int) -> None:
    """End this process once the pipe is closed, which the parent process holds."""
    threading.Thread(target=_wait_for_end, args=(end,), daemon=True).start()


def _wait_for_end(end: int) -> None:
    os.read(end, 1)
    os._exit(0)


def answer(end: str, function: Callable[[Any], dict[str, Any]]) -> int:
    """Print what a function returns for the request on the standard input, or the reason why it does not.

    Return the exit status.
    """
    end_with_pipe(int(end))
    output = own_output()
    try:
        checkpoints.take()
        found, status = function(json.load(sys.stdin)), 0
    except (Exception, SystemExit) as error:
        found, status = dict(_message_of(error)), 1
    entry_points.close_loop()
    with os.fdopen(output, "w") as file:
        json.dump(found, file)
    return status


def _message_of(error: BaseException) -> Message:
    """Return the reason for a person. The text of other errors may quote a connection string."""
    if isinstance(error, Refused):
        return error.message
    return message("saver.failed", kind=type(error).__name__)


@contextlib.contextmanager
def opened(folder: str, saver: str, permitted: Sequence[str] = ()) -> Iterator[SaverReader]:
    """Import the project, and yield a reader of its saver, or of the one that its factory returns.

    Of the methods that write, it can only call those that are permitted. Raises Refused.
    """
    guard = _Guard(permitted)
    guard.install()
    entry_points.enter_project(folder)
    found = project.load(saver)
    with contextlib.ExitStack() as stack:
        made = _made(found, stack)
        if not all(callable(getattr(made, name, None)) for name in ("list", "get_tuple", "alist")):
            raise Refused("saver.no_saver", saver=saver, found=type(made).__name__)
        guard.is_opening = False
        _set_serializers(made)
        yield SaverReader(made)


def _made(found: Any, stack: contextlib.ExitStack) -> Any:
    """Return the saver that an object is, or that a factory or context manager yields."""
    if hasattr(found, "get_tuple") and not inspect.isclass(found):
        return found
    made = found() if callable(found) else found
    return entry_points.entered(made, stack, lambda one: hasattr(one, "get_tuple"))


class _Guard:
    """Makes every class of savers, also those that are defined later, refuse to write."""

    def __init__(self, permitted: Sequence[str]) -> None:
        self._permitted = permitted
        # Until the saver is open, the project's code may fill a saver in the memory of this process.
        self.is_opening = True

    def install(self) -> None:
        """Change the classes that exist, and those that the project's code will define."""
        from langgraph.checkpoint.base import BaseCheckpointSaver

        change_classes(BaseCheckpointSaver, self._change)

    def _change(self, cls: type) -> None:
        is_in_memory = cls.__module__ == IN_MEMORY
        for name, method in list(vars(cls).items()):
            if not inspect.isfunction(method) or name in self._permitted:
                continue
            if name.removeprefix("a") == "setup":
                setattr(cls, name, _async_nothing if inspect.iscoroutinefunction(method) else _nothing)
            elif name.startswith(WRITING) or name.removeprefix("a").startswith(WRITING):
                setattr(cls, name, self._refusing(method, is_in_memory=is_in_memory))

    def _refusing(self, method: Callable[..., Any], *, is_in_memory: bool) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(*arguments: Any, **named: Any) -> Any:
            if is_in_memory and self.is_opening:
                return method(*arguments, **named)
            raise Refused("saver.only_read", method=method.__name__)

        return call


def _nothing(*arguments: Any, **named: Any) -> None:
    """Create no tables."""


async def _async_nothing(*arguments: Any, **named: Any) -> None:
    """Create no tables."""


class _Serializer:
    """Decodes stored values without loading an object."""

    def dumps_typed(self, value: Any) -> tuple[str, bytes]:
        return "msgpack", bytes_of(value)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        kind, stored = data
        if kind == "msgpack":
            return unpacked(stored)
        if kind == "json":
            return json.loads(stored)
        if kind in ("null", "empty"):
            return None
        return bytes(stored) if kind in ("bytes", "bytearray") else _opaque(kind, len(stored))

    def dumps(self, value: Any) -> bytes:
        return _json_of(value)

    def loads(self, data: bytes) -> Any:
        return json.loads(data)


def _set_serializers(saver: Any) -> None:
    """Replace the serializers of a saver. Raises Refused if it keeps its own."""
    inert = _Serializer()
    names = {"serde", *(name for name in dir(saver) if name.endswith("serde"))}
    for name in names:
        with contextlib.suppress(AttributeError, TypeError):
            setattr(saver, name, inert)
    if getattr(saver, "serde", None) is not inert:
        raise Refused("saver.own_serializer")


def _opaque(kind: str, size: int) -> InertObject:
    return InertObject(OPAQUE, packed([str(kind)[:100], size]))


def bytes_of(value: Any) -> bytes:
    """Return a value as MessagePack. Objects that the saver has loaded are serialized as the engine does.

    A value that MessagePack cannot hold, such as a larger integer, is replaced by the name of its type.
    """
    option = (
        ormsgpack.OPT_NON_STR_KEYS
        | ormsgpack.OPT_PASSTHROUGH_DATACLASS
        | ormsgpack.OPT_PASSTHROUGH_DATETIME
        | ormsgpack.OPT_PASSTHROUGH_ENUM
        | ormsgpack.OPT_PASSTHROUGH_UUID
        | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    )
    try:
        return bytes(ormsgpack.packb(value, default=_plain, option=option))
    except (TypeError, ValueError, RecursionError):
        return bytes(ormsgpack.packb(_plain(_opaque(type(value).__name__, 0))))


def _plain(value: Any) -> Any:
    if isinstance(value, InertObject):
        return ormsgpack.Ext(value.code, value.data)
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, (list, tuple)):
        return list(value)
    if isinstance(value, str):
        return str.__str__(value)
    try:
        kind, data = _engine_serializer().dumps_typed(value)
    except Exception:
        kind, data = "", b""
    return unpacked(data) if kind == "msgpack" else _plain(_opaque(type(value).__name__, len(data)))


@functools.cache
def _engine_serializer() -> Any:
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    return JsonPlusSerializer()


def _json_of(metadata: Any) -> bytes:
    try:
        text = json.dumps(metadata, ensure_ascii=False, default=lambda value: type(value).__name__)
    except (TypeError, ValueError, RecursionError):
        text = "{}"
    return text.encode("utf-8", "ignore")


class SaverReader:
    """The threads and checkpoints of a saver."""

    def __init__(self, saver: Any) -> None:
        self._saver = saver
        self._threads: list[tuple[str, str, str]] = []
        self._listed_until = 0.0

    def answer(self, request: list[Any]) -> Answer:
        """Return the answer to a request."""
        match request:
            case ["threads"]:
                return {"threads": self.threads()}
            case ["thread", str(thread)]:
                return {"rows": [row for row, _one in self.rows(thread)]}
            case ["checkpoint", str(thread), str(namespace), str(checkpoint), int(most)]:
                return self._checkpoint(thread, namespace, checkpoint, most)
        return {"error": message("saver.malformed")}

    def threads(self) -> list[tuple[str, str, str]]:
        """Return each thread with its newest checkpoint, and a text that changes with its rows."""
        began = time.monotonic()
        if began < self._listed_until:
            return self._threads
        heads, marks = dict[str, str](), dict[str, Any]()
        for count, one in enumerate(self._listed(None)):
            if count >= MAX_LISTED:
                raise Refused("saver.too_many", most=MAX_LISTED)
            thread, namespace, checkpoint = _key(one)
            heads.setdefault(thread, "")
            if not namespace:
                heads[thread] = max(heads[thread], checkpoint)
            line = f"{namespace} {checkpoint} {len(one.pending_writes or ())}\n"
            marks.setdefault(thread, hashlib.sha256()).update(line.encode("utf-8", "replace"))
        self._threads = [(thread, head, marks[thread].hexdigest()[:16]) for thread, head in heads.items()]
        now = time.monotonic()
        self._listed_until = now + max(MIN_REUSE_SECONDS, REUSE_FACTOR * (now - began))
        return self._threads

    def rows(self, thread: str, *, also_others: bool = False) -> Iterator[tuple[list[Any], Any]]:
        """Yield each of the newest checkpoints of a thread: its columns, and what the saver returned.

        ``also_others``: those of other threads, too, if the saver finds them by the id of this one.
        """
        found = self._listed({"configurable": {"thread_id": thread}}, limit=MAX_ROWS)
        for count, one in enumerate(found):
            if count >= MAX_ROWS:
                return
            own, namespace, checkpoint = _key(one)
            if own == thread or also_others:
                size, metadata = len(bytes_of(one.checkpoint)), _json_of(one.metadata)
                writes = _writes(one, MAX_NAMING_BYTES)
                yield [namespace, checkpoint, _parent(one), size, metadata, writes], one

    def _checkpoint(self, thread: str, namespace: str, checkpoint: str, most: int) -> Answer:
        """Return a checkpoint with its writes. Values of more than ``most`` bytes are left out."""
        wanted = {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": checkpoint}
        one = self._got({"configurable": wanted}, (thread, namespace, checkpoint))
        if one is None or _key(one) != (thread, namespace, checkpoint):
            return {"checkpoint": None}
        body = bytes_of(one.checkpoint)
        values = [_parent(one), len(body), body if len(body) <= most else None, _json_of(one.metadata)]
        return {"checkpoint": [*values, _writes(one, most)]}

    @property
    def is_in_memory(self) -> bool:
        """Whether no other process would notice that a thread was deleted."""
        return type(self._saver).__module__ == IN_MEMORY

    def delete_thread(self, thread: str) -> None:
        """Delete a thread with the saver's own method. Raises Refused if it has none, and what it raises."""
        try:
            try:
                entry_points.run_in_loop(self._saver.adelete_thread(thread))
            except NotImplementedError:
                self._saver.delete_thread(thread)
        except (AttributeError, NotImplementedError) as error:
            raise Refused("saver.no_delete") from error

    def _listed(self, config: Any, **options: Any) -> Iterator[Any]:
        listed = self._saver.alist(config, **options)
        try:
            one = _next(listed)
        except NotImplementedError:
            yield from self._saver.list(config, **options)
            return
        while one is not None:
            yield one
            one = _next(listed)

    def _got(self, config: Any, key: tuple[str, str, str]) -> Any:
        try:
            try:
                return entry_points.run_in_loop(self._saver.aget_tuple(config))
            except NotImplementedError:
                return self._saver.get_tuple(config)
        except Exception:
            # That of Redis needs its ``setup`` for this, which creates indexes, and lists without it.
            return next((one for one in self._listed(config) if _key(one) == key), None)


def _next(listed: Any) -> Any:
    """Return the next of an asynchronous list; None at its end."""

    async def following() -> Any:
        return await anext(aiter(listed), None)

    return entry_points.run_in_loop(following())


def _key(one: Any) -> tuple[str, str, str]:
    found = one.config["configurable"]
    identifier = found.get("checkpoint_id") or one.checkpoint["id"]
    return str(found["thread_id"]), str(found.get("checkpoint_ns") or ""), str(identifier)


def _parent(one: Any) -> str:
    found = (one.parent_config or {}).get("configurable") or {}
    return str(found.get("checkpoint_id") or "")


def _writes(one: Any, most: int) -> list[list[Any]]:
    """Return the task, index, channel, size and bytes of each write; no bytes for a larger one."""
    counts, found = dict[str, int](), list[list[Any]]()
    for task, channel, value in one.pending_writes or ():
        index = SPECIAL_INDEXES.get(channel)
        if index is None:
            index = counts.get(task, 0)
            counts[task] = index + 1
        data = bytes_of(value)
        found.append([str(task), index, str(channel), len(data), data if len(data) <= most else None])
    return found


def _serve(listener: socket.socket, reader: SaverReader | Message) -> None:
    """Answer all connections, one request after the other, for at most ``MAX_AGE_SECONDS``."""
    ending = time.monotonic() + MAX_AGE_SECONDS
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        while time.monotonic() < ending:
            for key, _events in selector.select(timeout=5):
                source = key.fileobj
                assert isinstance(source, socket.socket), "Only sockets are registered."
                if source is listener:
                    selector.register(listener.accept()[0], selectors.EVENT_READ)
                elif not _answered(source, reader):
                    selector.unregister(source)
                    source.close()


def _answered(source: socket.socket, reader: SaverReader | Message) -> bool:
    """Answer the next request of a connection. Return False once it is closed."""
    signal.alarm(ANSWER_SECONDS)
    try:
        size = int.from_bytes(_received(source, 4), "big")
        request = ormsgpack.unpackb(_received(source, size))
        try:
            answer = {"error": reader} if isinstance(reader, dict) else reader.answer(request)
        except Exception as error:
            answer = {"error": _message_of(error)}
        frame = packed(answer)
        source.sendall(len(frame).to_bytes(4, "big") + frame)
    except (OSError, EOFError, ValueError):
        return False
    finally:
        signal.alarm(0)
    return True


def _received(source: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        if not (data := source.recv(size - len(found))):
            raise EOFError
        found += data
    return found


def _copy(reader: SaverReader, key: str, target: Path) -> int:
    """Write the thread of a checkpoint to a new SQLite file, as the engine's own saver stores it.

    Return the number of its checkpoints.
    """
    outer, copied = checkpoints.unescaped(key).rpartition("/")[0], 0
    with contextlib.closing(sqlite3.connect(target)) as file, file:
        for statement in scratch_store.TABLES:
            file.execute(statement)
        for thread in dict.fromkeys((outer, outer.rpartition("/")[0])):
            for row, one in reader.rows(thread) if thread else ():
                namespace, checkpoint, parent, _size, metadata, _writes_of = row
                own = (thread, namespace, checkpoint)
                body, writes = bytes_of(one.checkpoint), _writes(one, 2**40)
                copied += (
                    len(body) + len(metadata) + sum(size for _task, _index, _channel, size, _data in writes)
                )
                if copied > MAX_COPIED_BYTES:
                    raise Refused("saver.answer_too_large")
                stored = (*own, parent or None, "msgpack", body, metadata)
                file.execute("INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)", stored)
                _refuse_opaque(body)
                for task, index, channel, _length, data in writes:
                    _refuse_opaque(data)
                    written = (*own, task, index, channel, "msgpack", data)
                    file.execute("INSERT OR REPLACE INTO writes VALUES (?, ?, ?, ?, ?, ?, ?, ?)", written)
        return int(file.execute("SELECT count(*) FROM checkpoints").fetchone()[0])


def _refuse_opaque(data: bytes) -> None:
    """Raise Refused if a value was not stored as MessagePack or JSON."""

    def check(code: int, data: bytes) -> None:
        if code == OPAQUE:
            raise Refused("saver.not_copied")

    ormsgpack.unpackb(data, ext_hook=check, option=ormsgpack.OPT_NON_STR_KEYS)
