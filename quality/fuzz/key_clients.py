"""Calls models with the clients of both engines, whose keys stay with Forkline.

Passes if each client gets its answer, if each key reaches its own address, and if no client has one.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from quality.compatibility.environments import HOME, installed
from quality.fuzz.key_proxy import started_job
from quality.tables import print_heading, print_row
from quality.temporary_data_folder import temporary_data_folder
from tests.jobs.keys.upstream import upstream

PROGRAM = Path(__file__).with_name("key_clients_program.py")
ENVIRONMENTS = {
    "CrewAI": ["crewai[anthropic]"],
    "LangGraph": ["langgraph", "langchain-openai", "langchain-anthropic", "litellm"],
}
KEYS = {
    "OPENAI_API_KEY": "sk-proj-openai-0123456789",
    "ANTHROPIC_API_KEY": "sk-ant-api03-anthropic-0123456789",
    "DEEPSEEK_API_KEY": "sk-deepseek-0123456789",
    "OPENROUTER_API_KEY": "sk-or-v1-openrouter-0123456789",
}
PLAIN = {"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false", "OTEL_SDK_DISABLED": "true"}


def results_of(name: str, folder: Path) -> tuple[dict[str, str], list[str]]:
    """What the clients of an engine returned, and what was wrong with what arrived."""
    python = installed(HOME / f"clients-{name.lower()}", ENVIRONMENTS[name])
    with upstream() as server:
        # Anthropic's clients add the version to the path themselves.
        addresses = {key: server.url if "ANTHROPIC" in key else f"{server.url}/v1" for key in KEYS}
        values = {
            **KEYS,
            **{key.replace("API_KEY", "BASE_URL"): address for key, address in addresses.items()},
        }
        with started_job(folder, values) as given:
            environment = {"PATH": os.environ["PATH"], "HOME": str(folder), **PLAIN, **given}
            wrong = [f"a client has {key}" for key in KEYS if KEYS[key] in str(environment)]
            command = [str(python), str(PROGRAM)]
            done = subprocess.run(
                command, env=environment, cwd=folder, capture_output=True, text=True, check=True
            )
        wrong += [f"a client shows {key}" for key in KEYS if KEYS[key] in done.stdout + done.stderr]
        wrong += [f"{key} arrived" for key in server.keys if key not in KEYS.values()]
    return json.loads(done.stdout.rpartition("FOUND ")[2]), wrong


def main() -> int:
    """Print what each client got. Returns 1 if a check failed, else 0."""
    failed = []
    with temporary_data_folder() as folder:
        print_heading("Clients whose keys stay with Forkline", "answered")
        for name in ENVIRONMENTS:
            results, wrong = results_of(name, folder)
            failed += wrong
            for client, text in results.items():
                print_row(f"{name}: {client}", int(text == "words"))
                failed += [f"{client}: {text}"] if text != "words" else []
    print(*failed, sep="\n")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
