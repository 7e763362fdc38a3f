"""The documents are those of the terminal, page by page."""

import json
import shutil
from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from django.urls import reverse

from tests.api.conftest import api_addresses
from tests.search.indexed import index_all
from tests.terminal import Terminal
from tests.views.forking import CREW, stored
from viewer.models import Checkpoint, Job, Location
from viewer.web.api.interface import api


def pages(client: Client, address: str, name: str, limit: int = 2, **query: str | int) -> list[Any]:
    """Return all rows of a list, read in pages."""
    found, after = [], ""
    while True:
        document = client.get(address, query | {"limit": limit, "after": after}).json()
        assert 0 < len(document[name]) <= limit
        found += document[name]
        if document["next"] is None:
            return found
        after = document["next"]


def test_documents_are_those_of_the_terminal(
    checkpoint: Checkpoint, viewer: Client, terminal: Terminal
) -> None:
    other = stored(checkpoint.location, CREW)
    listed = terminal.document("list", checkpoint.location.path)["runs"]
    (run,) = [one for one in listed if one["key"] == str(checkpoint.run.uid)]
    address = reverse("api-run", args=[checkpoint.run.uid])
    assert viewer.get(address).json() == {name: run[name] for name in run if name != "checkpoints"}
    assert viewer.get(f"{address}/checkpoints").json()["checkpoints"] == run["checkpoints"]
    info = terminal.document("info", checkpoint.target)
    assert viewer.get(f"/api/checkpoints/{checkpoint.pk}").json() == info
    found = viewer.get("/api/compare", {"a": checkpoint.pk, "b": other.pk}).json()
    assert found["a"]["id"] == checkpoint.checkpoint_id and found["differs"] is False


def test_lists_are_read_in_pages_without_gaps(checkpoint: Checkpoint, viewer: Client) -> None:
    location = checkpoint.location
    for _ in range(4):
        stored(location, CREW)
    for number in range(5):
        Location.objects.create(path=f"/other{number}", store_kind=Location.StoreKind.JSON)
        Job.objects.create(kind=Job.Kind.FORK, location=location, checkpoint=checkpoint)
    # Several jobs of a sweep are stored at the same moment.
    Job.objects.update(created_at=checkpoint.location.added_at)
    assert len({one["key"] for one in pages(viewer, "/api/locations", "locations")}) == 6
    assert len({one["job"] for one in pages(viewer, "/api/jobs", "jobs")}) == 5
    runs = pages(viewer, f"/api/locations/{location.uid}/runs", "runs")
    assert {one["key"] for one in runs} == {str(one.uid) for one in location.runs.all()}
    seen = [
        row["key"]
        for run in runs
        for row in pages(viewer, f"/api/runs/{run['key']}/checkpoints", "checkpoints")
    ]
    assert sorted(seen) == sorted(location.checkpoints.values_list("pk", flat=True))


def test_search_finds_the_same_results(checkpoint: Checkpoint, viewer: Client, terminal: Terminal) -> None:
    for _ in range(2):
        stored(checkpoint.location, CREW)
    index_all()
    wanted = terminal.document("search", "--entity", "crew")
    assert viewer.get("/api/search", {"entity": "crew"}).json() == {**wanted, "next": None}
    found = pages(viewer, "/api/search", "results", 1, entity="crew")
    assert found == wanted["results"] and len(found) == 3


@pytest.mark.parametrize(
    "address",
    [
        *(
            "/api/jobs?after=x",
            "/api/jobs?after=2026-01-01_x",
            "/api/jobs?status=x",
            "/api/locations?after=-1",
        ),
        *("/api/locations?after=99999999999999999999", "/api/locations?after=²", "/api/locations?limit=0"),
        *("/api/locations?limit=99999999999", "/api/search", "/api/search?since=x", "/api/search?status=x"),
        *("/api/search?q=a&edited=2", "/api/compare", "/api/compare?a=1&b=x", "/api/compare?a=-1&b=0"),
        f"/api/compare?a=1&b={2**63}",
        "/api/checkpoints/99999999999999999999999",
        f"/api/jobs?after=0001-01-01T00:00:00%2B14:00_{UUID(int=0)}",
        f"/api/jobs?after=9999-12-31T23:59:59-14:00_{UUID(int=0)}",
    ],
)
def test_invalid_values_are_refused_in_one_line(location: Location, viewer: Client, address: str) -> None:
    response = viewer.get(address)
    assert response.status_code == 422, response.content
    assert list(response.json()) == ["error"] and "\n" not in response.json()["error"]


@pytest.mark.parametrize(
    "address",
    ["/api/search?q=%00", "/api/search?q=%ff%fe", "/api/search?q=a&location=%00", "/api/jobs?after=%00"],
)
def test_hostile_texts_are_no_server_error(location: Location, viewer: Client, address: str) -> None:
    assert viewer.get(address).status_code in (200, 422)


def test_a_checkpoint_without_a_copy_says_so(checkpoint: Checkpoint, viewer: Client) -> None:
    checkpoint.stored_copy.delete()
    shutil.rmtree(checkpoint.location.path)
    Checkpoint.objects.filter(pk=checkpoint.pk).update(state=Checkpoint.State.NO_COPY)
    document = viewer.get(f"/api/checkpoints/{checkpoint.pk}").json()
    assert (document["state"], document["inputs"]) == ("no_copy", {})


def test_exports_are_files(checkpoint: Checkpoint, viewer: Client) -> None:
    address = reverse("api-export", args=[checkpoint.run.uid])
    assert viewer.get(address).json()["run"]["id"] == checkpoint.run.key
    assert viewer.get(address, {"format": "svg"})["Content-Type"] == "image/svg+xml; charset=utf-8"
    assert viewer.get(address, {"format": "exe"}).status_code == 422


def test_the_examples_have_the_keys_of_documents(checkpoint: Checkpoint, viewer: Client) -> None:
    addresses = api_addresses(checkpoint)
    index_all()
    schema = viewer.get("/api/openapi.json").json()
    for address, operations in schema["paths"].items():
        operation = operations.get("get")
        if operation is None or address.endswith("/export"):
            continue
        content = operation["responses"]["200"]["content"]["application/json"]
        document = viewer.get(addresses[operation["operationId"]]).json()
        assert missing_keys(content["example"], document) == set(), address
    assert json.dumps(schema) == json.dumps(api.get_openapi_schema(path_prefix="/api/"))


def missing_keys(example: Any, document: Any) -> set[str]:
    """Return the keys of an example that the document lacks, in lists by their first items."""
    if isinstance(example, list) and isinstance(document, list):
        return missing_keys(example[0], document[0]) if example and document else set()
    if not (isinstance(example, dict) and isinstance(document, dict)):
        return set()
    below = (missing_keys(value, document[key]) for key, value in example.items() if key in document)
    return (example.keys() - document.keys()).union(*below)
