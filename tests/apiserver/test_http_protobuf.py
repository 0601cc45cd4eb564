from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends import opened
from support.serving import ScriptedService, WebClient, serving
from unisono.api.decode import Shape, shape_of
from unisono.api.kind import Kind
from unisono.api.kinds import ALL_KINDS
from unisono.apiserver.custom.kinds import is_custom
from unisono.apiserver.http.protobuf import MEDIA_TYPE, decode, encode, fields, protocol
from unisono.errors import ApiError

VCJOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"


def varint(value: int) -> bytes:
    value %= 1 << 64
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def data(field: int, value: bytes | str) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(raw)) + raw


def entry(field: int, key: str, value: bytes | str) -> bytes:
    return data(field, data(1, key) + data(2, value))


def body(kind: str, raw: bytes, api_version: str = "v1", **more: bytes) -> bytes:
    unknown = data(1, data(1, api_version) + data(2, kind)) + data(2, raw) + b"".join(more.values())
    return b"k8s\x00" + unknown


META = data(1, data(1, "x") + data(2, "") + data(8, b"") + entry(11, "a", "b") + entry(11, "c", ""))
PLAIN = {"name": "x", "labels": {"a": "b", "c": ""}}

PROBE = data(1, data(2, data(2, number(1, 1) + number(2, 0) + data(3, "web")))) + number(4, 3)
CONTAINER = (
    data(1, "main")
    + data(2, "")
    + data(8, entry(2, "cpu", data(1, "500m")))
    + data(10, PROBE)
    + data(11, data(1, data(2, data(2, number(1, 0) + number(2, 80) + data(3, "")))))
)
POD_SPEC = (
    data(1, data(1, "v") + data(2, data(2, data(1, ""))))
    + data(2, CONTAINER)
    + number(4, 0)
    + number(5, -1)
    + entry(7, "a", "b")
    + number(11, 0)
)
GROUPS = {"PriorityClass": "scheduling.k8s.io/v1", "Lease": "coordination.k8s.io/v1"}

MESSAGES_READ = [
    ("ConfigMap", META + entry(2, "k", "v") + entry(3, "b", b"\xff"), {
        "data": {"k": "v"},
        "binaryData": {"b": "/w=="},
    }),
    ("Secret", META + entry(2, "p", b"word") + data(3, "Opaque"), {"data": {"p": "d29yZA=="}, "type": "Opaque"}),
    ("Namespace", META + data(2, b"") + data(3, data(1, "")), {}),
    ("PriorityClass", META + number(2, 0) + number(3, 0), {"value": 0}),
    ("ServiceAccount", META + number(4, 0), {"automountServiceAccountToken": False}),
    ("Pod", META + data(2, POD_SPEC), {"spec": {
        "volumes": [{"name": "v", "emptyDir": {}}],
        "containers": [{
            "name": "main",
            "resources": {"requests": {"cpu": "500m"}},
            "livenessProbe": {"httpGet": {"port": "web"}, "periodSeconds": 3},
            "readinessProbe": {"httpGet": {"port": 80}},
        }],
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": {"a": "b"},
        "activeDeadlineSeconds": -1,
    }}),
    ("ResourceQuota", META + data(2, entry(1, "pods", data(1, "5"))), {"spec": {"hard": {"pods": "5"}}}),
    ("ServiceAccount", META + data(2, data(3, "s")) + number(4, 1), {
        "secrets": [{"name": "s"}],
        "automountServiceAccountToken": True,
    }),
    ("Lease", META + data(2, data(1, "me") + number(2, 15) + data(4, number(1, 1_800_000_000) + number(2, 5_000))), {
        "spec": {
            "holderIdentity": "me",
            "leaseDurationSeconds": 15,
            "renewTime": "2027-01-15T08:00:00.000005Z",
        }
    }),
    ("Binding", META + data(2, data(1, "Node") + data(3, "n1")), {"target": {"kind": "Node", "name": "n1"}}),
    ("Event", META + data(3, "R") + data(6, number(1, 1_800_000_000)) + number(8, 3) + data(11, number(1, 2)), {
        "reason": "R",
        "firstTimestamp": "2027-01-15T08:00:00Z",
        "count": 3,
        "series": {"count": 2},
    }),
    ("ConfigMap", META + data(99, "unknown") + varint(98 << 3 | 1) + b"8" * 8 + varint(97 << 3 | 5) + b"4" * 4, {}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "raw", "expected"), MESSAGES_READ)
def test_messages(kind: str, raw: bytes, expected: dict[str, Any]) -> None:
    api_version = GROUPS.get(kind, "v1")
    found = decode(body(kind, raw, api_version))
    assert found == {"apiVersion": api_version, "kind": kind, "metadata": PLAIN, **expected}
    assert decode(encode(found)) == found


def test_owner_references_and_managed_fields() -> None:
    owner = data(1, "Job") + data(3, "j") + data(4, "u") + data(5, "batch.volcano.sh/v1alpha1") + number(6, 1)
    managed = data(1, "kubectl") + data(7, data(1, '{"f:data":{}}'))
    found = decode(body("ConfigMap", data(1, data(13, owner) + data(17, managed))))["metadata"]
    assert found == {
        "ownerReferences": [
            {
                "kind": "Job",
                "name": "j",
                "uid": "u",
                "apiVersion": "batch.volcano.sh/v1alpha1",
                "controller": True,
            }
        ],
        "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:data": {}}}],
    }


def test_delete_options() -> None:
    raw = number(1, 0) + data(2, data(1, "u")) + data(4, "Foreground") + data(5, "All")
    assert decode(body("DeleteOptions", raw)) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "u"},
        "propagationPolicy": "Foreground",
        "dryRun": ["All"],
    }


BROKEN = [
    (b"{}", 400, "does not begin with k8s"),
    (b"k8s\x00\x0a\xff", 400, "it ends in the middle"),
    (b"k8s\x00\x0b", 400, "unknown wire type 3"),
    (b"k8s\x00" + b"\xff" * 20, 400, "it ends in the middle of a number"),
    (body("Job", b"", "batch.volcano.sh/v1alpha1"), 415, "send a Job as JSON"),
    (body("", b""), 415, "send a body of that kind as JSON"),
    (body("ConfigMap", data(1, data(1, b"\xff"))), 400, "utf-8"),
    (body("ConfigMap", number(1, 3)), 400, "metadata is a number"),
    (body("PriorityClass", data(2, "x"), "scheduling.k8s.io/v1"), 400, "value is not a number"),
    (body("ConfigMap", data(2, number(1, 3))), 400, "a key of data is a number"),
    (body("ConfigMap", number(2, 3)), 400, "a map entry is a number"),
    (body("ConfigMap", data(1, data(17, data(7, data(1, "{"))))), 400, "cannot decode"),
    (body("Lease", data(2, data(4, number(1, 1 << 62))), "coordination.k8s.io/v1"), 400, "cannot decode"),
    (body("ConfigMap", b"", encoding=data(3, "gzip")), 400, "encoded body inside the envelope"),
]


@pytest.mark.parametrize(("raw", "code", "text"), BROKEN)
def test_what_cannot_be_read_is_a_clear_error(raw: bytes, code: int, text: str) -> None:
    with pytest.raises(ApiError, match=text) as caught:
        decode(raw)
    assert caught.value.code == code


@given(st.sampled_from(sorted(protocol().top)), st.binary(max_size=200))
def test_no_bytes_break_the_decoder(top: tuple[str, str], raw: bytes) -> None:
    for attempt in (body(top[1], raw, top[0]), b"k8s\x00" + raw, raw):
        try:
            assert decode(attempt)["kind"]
        except ApiError as error:
            assert error.code in {400, 415}


def test_the_table_refers_only_to_what_it_holds() -> None:
    scalars = {"string", "int", "bool", "bytes", "time", "microtime", "json", "quantity", "intstr"}
    messages = protocol().messages
    for message in messages.values():
        assert {field.type.removeprefix("list:") for field in message.values()} <= scalars | set(messages)
        assert all(field.name != "-" or field.inline for field in message.values())
    assert set(protocol().top.values()) <= set(messages)


# Kinds and fields of gates that are off where nobody turned them on, whose numbers are not known here: JSON alone.
JSON_ALONE = {"CompositePodGroup", "Job.spec.scheduling", "CronJob.spec.jobTemplate.spec.scheduling"}
BUILT_IN = [kind for kind in ALL_KINDS if not is_custom(kind)]


@pytest.mark.parametrize("kind", BUILT_IN, ids=lambda kind: kind.kind)
def test_every_built_in_kind_has_its_messages(kind: Kind[Any]) -> None:
    if kind.group == "apiextensions.k8s.io":
        pytest.skip("clients send definitions as JSON")
    if kind.kind in JSON_ALONE:
        assert protocol().find(kind.api_version, kind.kind) is None
        return
    versions = [replace(kind, version=version).api_version for version in (kind.version, *kind.alias_versions)]
    names = {protocol().find(version, kind.kind) for version in versions} - {None}
    assert protocol().find(kind.api_version, kind.kind) in names
    _compare(shape_of(kind.struct), frozenset(map(str, names)), kind.kind, set())


def _compare(shape: Shape, messages: frozenset[str], path: str, seen: set[frozenset[str]]) -> None:
    """Every field that is kept has a number in some version; there may be more, from newer versions of Kubernetes."""
    if messages in seen:
        return
    seen.add(messages)
    fields: dict[str, set[str]] = {}
    for message in messages:
        for name, kind in _flat(message).items():
            fields.setdefault(name, set()).add(kind)
    ours = {name for name in shape.fields if f"{path}.{name}" not in JSON_ALONE} - {"apiVersion", "kind"}
    assert ours <= set(fields), f"{path}: {sorted(ours - set(fields))} have no number"
    for name in ours:
        below = shape.fields[name].shape
        inner = below.item if below.kind in ("array", "map") and below.item else below
        known = frozenset(fields[name] & protocol().messages.keys())
        if inner.kind == "object" and known:
            _compare(inner, known, f"{path}.{name}", seen)


def _flat(message: str) -> dict[str, str]:
    found = {}
    for field in protocol().messages[message].values():
        found.update(_flat(field.type) if field.inline else {field.name: field.type})
    return found


@pytest.fixture
async def web(tmp_path: Path) -> AsyncIterator[WebClient]:
    async with serving(ScriptedService(), tmp_path) as client:
        yield client


async def test_bodies_over_http(web: WebClient) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    accept = f"{MEDIA_TYPE},application/json"
    reply = await web.post(path, body("ConfigMap", META), type=MEDIA_TYPE, accept=accept)
    assert (reply.status, reply.headers["Content-Type"]) == (201, "application/json")
    assert reply.json() == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": PLAIN}
    refused = await web.post(VCJOBS, body("Job", META, "batch.volcano.sh/v1alpha1"), type=MEDIA_TYPE)
    assert (refused.status, refused.json()["reason"]) == (415, "UnsupportedMediaType")
    assert "application/json, application/yaml; send a Job as JSON" in refused.json()["message"]


async def test_answers_for_clients_that_read_nothing_else(tmp_path: Path) -> None:
    async with opened() as backend, serving(backend.service, tmp_path) as web:
        path = "/api/v1/namespaces/default/configmaps"
        made = await web.post(path, body("ConfigMap", META), type=MEDIA_TYPE, accept=MEDIA_TYPE)
        assert (made.status, made.headers["Content-Type"]) == (201, MEDIA_TYPE)
        assert decode(made.body)["metadata"]["name"] == "x"
        one = await web.get(f"{path}/x", accept=MEDIA_TYPE)
        assert decode(one.body) == (await web.get(f"{path}/x")).json()
        listed = await web.get(path, accept=MEDIA_TYPE)
        assert b"ConfigMapList" in listed.body
        missing = await web.get(f"{path}/none", accept=MEDIA_TYPE)
        assert (missing.status, decode(missing.body)["reason"]) == (404, "NotFound")
        watched = await web.get(
            f"{path}?watch=true&timeoutSeconds=1&fieldSelector=metadata.name=x", accept=f"{MEDIA_TYPE};stream=watch"
        )
        size = int.from_bytes(watched.body[:4], "big")
        event: dict[int, Any] = dict(fields(watched.body[4 : 4 + size]))
        assert event[1] == b"ADDED"
        embedded: dict[int, Any] = dict(fields(event[2]))
        assert decode(embedded[1])["metadata"]["name"] == "x"
        refused = await web.get(VCJOBS, accept=MEDIA_TYPE)
        assert refused.status == 406
