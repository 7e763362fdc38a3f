"""The image, the Compose file and the Kubernetes resources are valid, and leave their programs few rights."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from compose_spec import PyCompose

from tests.deploy.files import DEPLOY, ROOT, Service, compose, of_compose, of_kubernetes

PROGRAMS = Path(sys.executable).parent
OF_CONTAINERS = [*of_compose(), *of_kubernetes()]


def run(*command: str | Path) -> None:
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_hadolint_accepts_the_image() -> None:
    run(PROGRAMS / "hadolint", DEPLOY / "Dockerfile")


def test_the_image_is_built_from_what_the_wheel_needs() -> None:
    sent = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert [name for name in sent if not (ROOT / name).exists()] == []
    assert {"checkpoint_site", "viewer", "templates", "static", "requirements.lock"} <= set(sent)


def test_the_image_does_not_run_as_root() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    assert [line for line in lines if line.startswith("USER")] == ["USER 10001:10001"]


def test_the_compose_file_follows_the_specification() -> None:
    found = PyCompose.from_json(json.dumps(compose()))
    found.validate()
    assert list(found.services or {}) == ["proxy", "postgresql", "web-1", "web-2", "host-1", "host-2"]


def test_kubernetes_accepts_the_resources() -> None:
    run(PROGRAMS / "kubernetes-validate", "--strict", DEPLOY / "kubernetes" / "forkline.yaml")


@pytest.mark.parametrize("service", compose()["services"].values(), ids=list(compose()["services"]))
def test_a_container_of_compose_has_few_rights(service: dict[str, Any]) -> None:
    assert service["read_only"] and service["cap_drop"] == ["ALL"] and service["healthcheck"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "pid", "network_mode"} & set(service)


def test_only_the_proxy_has_ports_and_hosts_share_no_network_with_pages() -> None:
    services = compose()["services"]
    assert [name for name, one in services.items() if "ports" in one] == ["proxy"]
    assert all("pages" not in services[name]["networks"] for name in ("postgresql", "host-1", "host-2"))
    assert "database" not in services["proxy"]["networks"]


@pytest.mark.parametrize("service", of_kubernetes(), ids=lambda one: one.name)
def test_a_pod_has_few_rights(service: Service) -> None:
    own, pod = service.own["securityContext"], service.own["pod"]
    assert own["readOnlyRootFilesystem"] and not own["allowPrivilegeEscalation"]
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert pod["securityContext"]["runAsNonRoot"] and pod["automountServiceAccountToken"] is False


@pytest.mark.parametrize("service", OF_CONTAINERS, ids=lambda one: one.name)
def test_only_web_servers_have_the_key_of_sessions(service: Service) -> None:
    assert ("SECRET_KEY" in service.variables) == (service.command[0] == "web")


def test_nothing_that_ends_a_run_restarts_a_host() -> None:
    """A container that is restarted ends the runs in it."""
    for service in of_kubernetes():
        probe = service.own.get("livenessProbe", {})
        # Not even the one of a web server asks the database.
        assert set(probe) - {"periodSeconds"} == ({"tcpSocket"} if service.command[0] == "web" else set())
