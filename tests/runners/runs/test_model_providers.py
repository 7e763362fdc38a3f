"""Models whose provider's package is not installed are found before anything is paid for."""

import ssl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from forkline_crewai.patches import unused_certificates
from tests.engine_runs.runs import new_run_request
from tests.runners.conftest import Engine

CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBdDCCARugAwIBAgIUX4EfmW4aCP04SUCIukR0Me9Gc2swCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEdGVzdDAgFw0yNjExMjMxMzQ2NTlaGA8yMTI2MTAzMDEzNDY1
OVowDzENMAsGA1UEAwwEdGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABDxZ
PwVJZUY+vfh2AJg1+Jx7TCkycWzoM+JlATViQdyl2/TQeUwSendLScifmso1+udk
hBjr78B92SyMjjs7H2qjUzBRMB0GA1UdDgQWBBTazAEibfCRhkMJzwI/eOqY73D4
MDAfBgNVHSMEGDAWgBTazAEibfCRhkMJzwI/eOqY73D4MDAPBgNVHRMBAf8EBTAD
AQH/MAoGCCqGSM49BAMCA0cAMEQCIHNHW0g5mRVNZgZw3wPSRgI0acWJwcYFMP5g
3NMbkyMfAiAuSevhPbdtV37jnfWUTaoxL+M9zdaVEbj3Buvbf2Lrhw==
-----END CERTIFICATE-----
"""


def test_a_planner_without_an_installed_provider_is_found_before_the_run(
    engine: Engine, tmp_path: Path
) -> None:
    request = new_run_request(tmp_path / "store", "crew", "press_providers:planned", {})
    error = engine.refused({**request, "options": {"accepted": []}})

    assert "crewai[anthropic]" in error


def test_an_accepted_missing_provider_does_not_block_the_run(engine: Engine, tmp_path: Path) -> None:
    request = new_run_request(tmp_path / "store", "flow", "press_providers:LateFlow", {"skips": True})
    engine.completed({**request, "options": {"accepted": ["*"]}})

    assert engine.model.prompts() == ["First"]


def test_clients_that_are_discarded_load_no_certificates() -> None:
    with unused_certificates.skipped(), ThreadPoolExecutor(1) as other_thread:
        assert trusted() == 0
        assert other_thread.submit(trusted).result() == 1
    assert trusted() == 1


def trusted() -> int:
    """Return how many certificates a new context has loaded."""
    return len(ssl.create_default_context(cadata=CERTIFICATE).get_ca_certs())
