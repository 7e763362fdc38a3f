"""Every patch to CrewAI's globals; nothing outside this folder assigns to them.

Each patch is a function that installs it for the life of the process. Its docstring says what it patches, the
versions of CrewAI that it applies to, why, and the test that fails without it.

patch                                        applies to
recording.name_functions                     every run
recording.retry_serialization                every run
recording.pin_locations                      every run
recording.write_one_at_a_time                every run
recording.report_checkpoints                 every run
recording.await_writes                       every run
tasks.pass_on_async_failures                 every run
questions.ask_for_output_review              every run
questions.ask_for_feedback                   every run
questions.route_by_chosen_outcome            every run
questions.ask_instead_of_pausing             every run
questions.ask_for_flow_input                 every run
recording.prune_older_checkpoints            every run, if a person keeps only the latest checkpoints
recording.report_events                      every run
questions.ask_instead_of_pausing_in_methods  flows
tasks.hold_tasks                             resumed crews, and those inside a resumed flow
tasks.call_before_kickoffs                   resumed flows with a crew that had not finished
tasks.reuse_pending_output                   resumed flows that wait for feedback
tasks.resolve_provider_once                  resumed flows that wait for feedback
tasks.replay_methods                         resumed flows
tasks.call_before_first_task                 crews whose prompt cache is warmed
recording.drop_warmup_events                 crews whose prompt cache is warmed
recording.leave_existing_files               forks, and answers of flows that wait
recording.redirect_states                    forks of flows' states, and answers of flows that wait
recording.in_one_transaction                 publications of such forks
tasks.decide_about_calls                     forks and resumes that decide about calls of tools
tasks.note_read_only_tools                   forks and resumes that decide about calls of tools
secrets_hidden                               prewarmed processes, while they import the engine

``runs.patch_engine`` applies those of every run, in the order in which they wrap each other. The one
of prewarmed processes is below, because the modules import the engine.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

# A load_dotenv call: the file of the module that made it, its arguments and keyword arguments.
DotenvCall = tuple[str, tuple[Any, ...], dict[str, Any]]


@contextmanager
def secrets_hidden(calls: list[DotenvCall]) -> Iterator[None]:
    """Hide environment files and a person's sign-in from the engine while it is imported in this block.

    Calls of ``load_dotenv`` are appended to ``calls``.

    Patches: dotenv.load_dotenv, dotenv.dotenv_values, crewai_core.token_manager.TokenManager.get_token
    Versions: 1.14.2 and newer; only 1.14.7 and newer have crewai_core
    Why: A prewarmed process waits for jobs and must hold no secret. The engine reads both when it is
        imported.
    Test: tests/runners/test_patches.py::test_environment_files_and_sign_in_are_hidden_at_import
    """
    with _without_files(calls), _without_sign_in():
        yield


@contextmanager
def _without_files(calls: list[DotenvCall]) -> Iterator[None]:
    try:
        dotenv: Any = importlib.import_module("dotenv")
    except ImportError:
        yield
        return

    def record_call(*arguments: Any, **named: Any) -> bool:
        calls.append((sys._getframe(1).f_code.co_filename, arguments, named))
        return False

    def no_values(*arguments: Any, **named: Any) -> dict[str, str | None]:
        return {}

    with patch.multiple(dotenv, load_dotenv=record_call, dotenv_values=no_values):
        yield


@contextmanager
def _without_sign_in() -> Iterator[None]:
    try:
        tokens: Any = importlib.import_module("crewai_core.token_manager")
    except ImportError:
        yield
        return
    with patch.object(tokens.TokenManager, "get_token", lambda manager: None):
        yield
