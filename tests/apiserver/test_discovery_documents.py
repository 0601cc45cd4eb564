from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.serving import ScriptedService, WebClient, serving
from unisono.api.groups.resource_metrics import NODE_METRICS, POD_METRICS
from unisono.api.kinds import ALL_KINDS, JOBS, PODS
from unisono.apiserver.access.user import REVIEW_KINDS
from unisono.apiserver.encoding import VIEWS
from unisono.apiserver.http.protobuf import fields
from unisono.apiserver.http.query import ResourcePath, parse, split
from unisono.apiserver.http.status import Form, negotiate
from unisono.errors import ApiError

AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)


@pytest.fixture
async def web(tmp_path: Path) -> AsyncIterator[WebClient]:
    async with serving(ScriptedService(), tmp_path, readiness=lambda: UNREADY) as client:
        yield client


UNREADY: list[str] = []


async def test_version_can_be_parsed_by_kubectl(web: WebClient) -> None:
    for path in ("/version", "/version/"):
        found = (await web.get(path)).json()
        assert found["gitVersion"].startswith(f"v{found['major']}.{found['minor']}.0+")
        assert set(found) == {
            "major",
            "minor",
            "gitVersion",
            "gitCommit",
            "gitTreeState",
            "buildDate",
            "goVersion",
            "compiler",
            "platform",
        }


@pytest.mark.parametrize(("path", "core"), [("/api", True), ("/apis", False)])
async def test_aggregated_discovery(web: WebClient, path: str, core: bool) -> None:
    reply = await web.get(path, accept=AGGREGATED)
    assert reply.headers["Content-Type"] == "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    assert reply.headers["Vary"] == "Accept"
    found = reply.json()
    assert found["apiVersion"] == "apidiscovery.k8s.io/v2"
    listed = {
        (group["metadata"].get("name", ""), version["version"], resource["resource"])
        for group in found["items"]
        for version in group["versions"]
        for resource in version["resources"]
    }
    expected = {
        (kind.group, version, kind.plural)
        for kind in (*ALL_KINDS, *REVIEW_KINDS, NODE_METRICS, POD_METRICS, *(view.kind for view in VIEWS))
        for version in (kind.version, *kind.alias_versions)
        if (kind.group == "") == core
    }
    assert listed == expected
    again = await web.get(path, accept=AGGREGATED, headers={"If-None-Match": reply.headers["ETag"]})
    assert (again.status, again.body) == (304, b"")


async def test_older_aggregated_version(web: WebClient) -> None:
    accept = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
    reply = await web.get("/apis", accept=accept)
    assert "v=v2beta1" in reply.headers["Content-Type"]
    assert reply.json()["apiVersion"] == "apidiscovery.k8s.io/v2beta1"


@pytest.mark.parametrize("accept", ["application/json", "*/*", "", f"application/json,{AGGREGATED}"])
async def test_older_discovery(web: WebClient, accept: str) -> None:
    assert (await web.get("/api", accept=accept)).json()["versions"] == ["v1"]
    groups = (await web.get("/apis/", accept=accept)).json()["groups"]
    names = [group["name"] for group in groups]
    assert names.index("batch") < names.index("batch.volcano.sh")
    assert names.index("scheduling.volcano.sh") < names.index("scheduling.k8s.io")
    batch = next(group for group in groups if group["name"] == "batch.volcano.sh")
    assert batch["preferredVersion"] == {"groupVersion": "batch.volcano.sh/v1alpha1", "version": "v1alpha1"}
    assert [version["version"] for version in batch["versions"]] == ["v1alpha1", "v1beta1"]
    assert (await web.get("/apis/batch.volcano.sh", accept=accept)).json()["kind"] == "APIGroup"


async def test_resource_lists(web: WebClient) -> None:
    core = (await web.get("/api/v1")).json()
    names = {entry["name"] for entry in core["resources"]}
    assert {"pods", "pods/log", "pods/binding", "pods/eviction", "pods/status", "nodes/status"} <= names
    eviction = next(entry for entry in core["resources"] if entry["name"] == "pods/eviction")
    assert (eviction["group"], eviction["version"], eviction["kind"]) == ("policy", "v1", "Eviction")
    jobs = (await web.get("/apis/batch.volcano.sh/v1beta1")).json()["resources"]
    assert jobs[0] == {
        "name": "jobs",
        "singularName": "job",
        "namespaced": True,
        "kind": "Job",
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "shortNames": ["vcjob", "vj", "vjob"],
        **({"categories": list(JOBS.categories)} if JOBS.categories else {}),
    }
    groups = (await web.get("/apis/scheduling.volcano.sh/v1beta1")).json()["resources"]
    assert "podgroups/status" not in {entry["name"] for entry in groups}


async def test_open_api_names_every_group_and_version(web: WebClient) -> None:
    index = (await web.get("/openapi/v3")).json()["paths"]
    assert {"api/v1", "apis/batch.volcano.sh/v1alpha1", "apis/batch.volcano.sh/v1beta1"} <= set(index)
    for entry in index.values():
        reply = await web.get(entry["serverRelativeURL"])
        assert reply.status == 200
        again = await web.get(entry["serverRelativeURL"], headers={"If-None-Match": reply.headers["ETag"]})
        assert again.status == 304


@pytest.mark.parametrize("kind", ALL_KINDS, ids=lambda kind: kind.resource)
async def test_open_api_has_what_kubectl_looks_for(web: WebClient, kind: Any) -> None:
    root = f"apis/{kind.group}" if kind.group else "api"
    document = (await web.get(f"/openapi/v3/{root}/{kind.version}")).json()
    gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    patch = document["paths"][kind.path("{namespace}", "{name}")]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == gvk
    assert "fieldValidation" in {parameter["name"] for parameter in patch["parameters"]}
    own = kind.group.endswith(".k8s.io") or "." not in kind.group
    assert ("application/strategic-merge-patch+json" in patch["requestBody"]["content"]) == own
    every = document["components"]["schemas"].values()
    schemas = [schema for schema in every if gvk in schema.get("x-kubernetes-group-version-kind", [])]
    assert len(schemas) == 1
    assert {"apiVersion", "kind", "metadata"} <= set(schemas[0]["properties"])
    for reference in _references(document):
        assert reference.rpartition("/")[2] in document["components"]["schemas"]


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [ref for child in value.values() for ref in _references(child)]
    return [ref for child in value for ref in _references(child)] if isinstance(value, list) else []


V2 = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


async def test_open_api_v2_defines_every_kind_as_v3_does(web: WebClient) -> None:
    document = (await web.get("/openapi/v2")).json()
    assert document["swagger"] == "2.0"
    for kind in ALL_KINDS:
        patch = document["paths"][kind.path("{namespace}", "{name}")]["patch"]
        assert patch["x-kubernetes-group-version-kind"]["kind"] == kind.kind
        assert {"body", "dryRun", "fieldValidation"} <= {parameter["name"] for parameter in patch["parameters"]}
    for reference in _references(document):
        assert reference.removeprefix("#/definitions/") in document["definitions"]
    container = document["definitions"]["io.k8s.api.core.v1.Pod"]["properties"]["spec"]["properties"]["containers"]
    assert container["x-kubernetes-patch-merge-key"] == "name"
    # What v2 cannot say, it must not say.
    limits = container["items"]["properties"]["resources"]["properties"]["limits"]["additionalProperties"]
    assert (limits["type"], limits["format"]) == ("string", "int-or-string")
    assert b'"anyOf"' not in (await web.get("/openapi/v2")).body


async def test_open_api_v2_as_protobuf_says_what_its_json_says(web: WebClient) -> None:
    reply = await web.get("/openapi/v2", accept=V2)
    assert reply.headers["Content-Type"] == "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
    document = (await web.get("/openapi/v2")).json()
    paths, definitions = (dict(_entries(reply.body, 8, 2)), dict(_entries(reply.body, 9, 1)))
    assert (list(paths), list(definitions)) == (list(document["paths"]), list(document["definitions"]))
    properties = next(value for number, value in fields(definitions["io.k8s.api.core.v1.Secret"]) if number == 25)
    named = [name for name, _ in _named(properties, 1)]
    assert named == list(document["definitions"]["io.k8s.api.core.v1.Secret"]["properties"])
    again = await web.get("/openapi/v2", accept=V2, headers={"If-None-Match": reply.headers["ETag"]})
    assert again.status == 304


def _entries(data: bytes, part: int, entry: int) -> list[tuple[str, bytes]]:
    """Names and values of the entries of one part of a document."""
    return [found for number, value in fields(data) if number == part for found in _named(value, entry)]


def _named(data: int | bytes, entry: int) -> list[tuple[str, bytes]]:
    assert isinstance(data, bytes)
    pairs = [dict(fields(value)) for number, value in fields(data) if number == entry and isinstance(value, bytes)]
    return [(pair[1].decode(), pair[2]) for pair in pairs if isinstance(pair[1], bytes) and isinstance(pair[2], bytes)]


async def test_readiness_names_what_is_missing(web: WebClient) -> None:
    assert (await web.get("/readyz")).body == b"ok"
    UNREADY.append("scheduler has not started")
    try:
        reply = await web.get("/readyz")
        assert reply.status == 500
        assert b"[-]scheduler has not started" in reply.body
        assert (await web.get("/livez")).status == 200
    finally:
        UNREADY.clear()


async def test_metrics(web: WebClient) -> None:
    await web.get(PODS.path())
    text = (await web.get("/metrics")).body.decode()
    assert 'apiserver_request_total{code="200",resource="pods",verb="list"} 1.0' in text
    assert "apiserver_request_duration_seconds_bucket" in text


async def test_root_lists_paths(web: WebClient) -> None:
    assert "/openapi/v3" in (await web.get("/")).json()["paths"]


PATHS = [
    ("/api/v1/pods", ResourcePath("", "v1", None, "pods")),
    ("/api/v1/namespaces", ResourcePath("", "v1", None, "namespaces")),
    ("/api/v1/namespaces/a", ResourcePath("", "v1", None, "namespaces", "a")),
    ("/api/v1/namespaces/a/", ResourcePath("", "v1", None, "namespaces", "a")),
    ("/api/v1/namespaces/a/status", ResourcePath("", "v1", None, "namespaces", "a", "status")),
    ("/api/v1/namespaces/a/finalize", ResourcePath("", "v1", None, "namespaces", "a", "finalize")),
    ("/api/v1/namespaces/a/pods", ResourcePath("", "v1", "a", "pods")),
    ("/api/v1/namespaces/a/status/x", ResourcePath("", "v1", "a", "status", "x")),
    ("/api/v1/namespaces/a/pods/p/log", ResourcePath("", "v1", "a", "pods", "p", "log")),
    ("/apis/g.io/v1/things/t/status", ResourcePath("g.io", "v1", None, "things", "t", "status")),
    ("/apis/g.io/v1/namespaces/a/things", ResourcePath("g.io", "v1", "a", "things")),
    ("/api/v1/nodes/a%2Fb", ResourcePath("", "v1", None, "nodes", "a/b")),
    ("/api", None),
    ("/api/v1", None),
    ("/apis/g.io/v1", None),
    ("/api/v1/namespaces/a/pods/p/log/x", None),
    ("/api/v1/namespaces//pods", None),
    ("/other/v1/pods", None),
    ("/", None),
]


@pytest.mark.parametrize(("path", "expected"), PATHS)
def test_resource_paths(path: str, expected: ResourcePath | None) -> None:
    assert parse(split(path)) == expected


@given(st.text(max_size=60))
def test_no_path_breaks_the_parser(text: str) -> None:
    parse(split("/api/" + text))
    parse(split("/apis/" + text))


ACCEPTS = [
    ("", Form()),
    ("*/*", Form()),
    ("application/json", Form()),
    ("application/vnd.kubernetes.protobuf,application/json", Form()),
    ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Form("json", "Table", "v1")),
    ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", Form("json", "Table", "v1beta1")),
    ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", Form()),
    ("application/json;q=0.1,application/yaml", Form("yaml")),
    ("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", Form("json", "PartialObjectMetadata")),
    ("application/json;stream=watch", Form()),
    ("text/html, */*;q=0.5", Form()),
    ("application/json;q=x", Form()),
    ("application/vnd.kubernetes.protobuf", Form("protobuf")),
    ("text/plain", None),
]


@pytest.mark.parametrize(("accept", "form"), ACCEPTS)
def test_negotiation(accept: str, form: Form | None) -> None:
    if form is None:
        with pytest.raises(ApiError, match="only the following media types"):
            negotiate(accept)
    else:
        assert negotiate(accept) == form


@given(st.text(max_size=80))
def test_no_accept_header_breaks_negotiation(text: str) -> None:
    try:
        negotiate(text)
    except ApiError as error:
        assert error.code == 406
