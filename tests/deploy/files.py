"""The commands of Forkline in the files of ``deploy``, with their settings and health checks."""

import configparser
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"), key=lambda path: path.stem)
# For the variables that a person has to set, as long as what the files say to generate.
GIVEN = "given-by-a-person-who-generated-64-hexadecimal-characters"


@dataclass(frozen=True, slots=True)
class Service:
    """A command of Forkline: its words after ``forkline``, its variables, and what checks its health.

    ``check`` is a command, too, or the headers of a request for ``/healthz``.
    """

    name: str
    command: list[str]
    variables: dict[str, str]
    check: list[str] | dict[str, str]
    own: dict[str, Any] = field(repr=False)


def image() -> dict[str, str]:
    """The variables that the image sets."""
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    (line,) = re.findall(r"^ENV (.*)", text, re.M)
    return dict(word.split("=", 1) for word in line.split())


def compose() -> dict[str, Any]:
    """The Compose file, with the defaults of its variables."""

    def value(found: re.Match[str]) -> str:
        return found["text"] if found["kind"] == "-" else GIVEN

    text = re.sub(r"\$\{\w+:(?P<kind>[-?])(?P<text>[^}]*)\}", value, (DEPLOY / "compose.yaml").read_text())
    document: dict[str, Any] = yaml.safe_load(text)
    return document


def of_compose() -> list[Service]:
    found = {name: one for name, one in compose()["services"].items() if one.get("image") == "forkline"}
    return [
        Service(
            name,
            one["command"],
            image() | one["environment"],
            one["healthcheck"]["test"][1:],
            one,
        )
        for name, one in found.items()
    ]


def kubernetes() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / "kubernetes" / "forkline.yaml").read_text()))


def of_kubernetes() -> list[Service]:
    """One service for each pod."""
    found = []
    for resource in kubernetes():
        if resource["kind"] not in {"Deployment", "StatefulSet"}:
            continue
        pod = resource["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        for number in range(resource["spec"]["replicas"]):
            name = f"{resource['metadata']['name']}-{number}"
            own = {one["name"]: one.get("value", GIVEN) for one in container["env"]}
            own |= {one["name"]: name for one in container["env"] if "fieldRef" in one.get("valueFrom", {})}
            command = [word.replace("$(HOST_NAME)", own.get("HOST_NAME", "")) for word in container["args"]]
            probe = container["readinessProbe"]
            asked = probe.get("httpGet", {}).get("httpHeaders", [])
            check = {one["name"]: one["value"] for one in asked} or probe["exec"]["command"]
            found.append(Service(name, command, image() | own, check, container | {"pod": pod}))
    return found


def unit(path: Path) -> dict[str, str]:
    """The section ``Service`` of a unit."""
    # A setting may be there twice.
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(path)
    return dict(parser["Service"])


def of_systemd() -> list[Service]:
    """The services of several machines."""
    lines = (DEPLOY / "systemd" / "forkline.env").read_text().splitlines()
    shared = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    found = []
    for path in (DEPLOY / "systemd" / "forkline-web.service", DEPLOY / "systemd" / "forkline-worker.service"):
        own = unit(path)
        variables = shared | dict(word.split("=", 1) for word in own["Environment"].split())
        for name in own.get("UnsetEnvironment", "").split():
            del variables[name]
        _program, *command = own["ExecStart"].replace("%H", "gpu-1").split()
        found.append(Service(path.stem, command, variables, ["forkline", command[0], "--check"], own))
    return found
