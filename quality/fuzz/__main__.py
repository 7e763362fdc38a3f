"""Runs every fuzz test, each in its own process. Exits with 1 if one fails."""

import sys

from quality.processes import run_modules

TESTS = (
    "broken_files",
    "corrupt_stores",
    "damaged_rows",
    "damaged_files",
    "resource_exhaustion",
    "terminal_calls",
    "random_lineages",
    "consent",
    "tool_calls",
    "model_answers",
    "replays",
    "job_events",
    "flow_states",
    "collected_items",
    "exports",
    "hostile_repositories",
    "hostile_savers",
    "sandbox_escapes",
    "planted_files",
    "pruned_threads",
    "quotas",
    "quotas_postgresql",
    "request_headers",
    "key_proxy",
    "key_clients",
    "api_tokens",
    "invitations",
    "webhooks",
    "comments",
    "routes_by_roles",
    "sockets_by_roles",
    "script_injection.pages",
)

if __name__ == "__main__":
    sys.exit(run_modules("quality.fuzz", TESTS))
