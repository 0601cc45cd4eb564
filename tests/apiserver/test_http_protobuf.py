from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.serving import ScriptedService, WebClient, serving
from unisono.apiserver.http.protobuf import MEDIA_TYPE, decode
from unisono.apiserver.http.protobuf_fields import MESSAGES, TOP_LEVEL
from unisono.errors import ApiError


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

MESSAGES_READ = [
    ("ConfigMap", META + entry(2, "k", "v") + entry(3, "b", b"\xff"), {
        "data": {"k": "v"},
        "binaryData": {"b": "/w=="},
    }),
    ("Secret", META + entry(2, "p", b"word") + data(3, "Opaque"), {"data": {"p": "d29yZA=="}, "type": "Opaque"}),
    ("Namespace", META + data(2, b"") + data(3, data(1, "")), {"spec": {}}),
    ("PriorityClass", META + number(2, -10) + number(3, 0), {"value": -10, "globalDefault": False}),
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
    assert decode(body(kind, raw)) == {"apiVersion": "v1", "kind": kind, "metadata": PLAIN, **expected}


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
    (body("Pod", b""), 415, "send a Pod as JSON"),
    (body("", b""), 415, "send a body of that kind as JSON"),
    (body("ConfigMap", data(1, data(1, b"\xff"))), 400, "utf-8"),
    (body("ConfigMap", number(1, 3)), 400, "metadata is a number"),
    (body("PriorityClass", data(2, "x")), 400, "value is not a number"),
    (body("ConfigMap", number(2, 3)), 400, "a map entry is a number"),
    (body("ConfigMap", data(1, data(17, data(7, data(1, "{"))))), 400, "cannot decode"),
    (body("Lease", data(2, data(4, number(1, 1 << 62)))), 400, "cannot decode"),
    (body("ConfigMap", b"", encoding=data(3, "gzip")), 400, "encoded body inside the envelope"),
]


@pytest.mark.parametrize(("raw", "code", "text"), BROKEN)
def test_what_cannot_be_read_is_a_clear_error(raw: bytes, code: int, text: str) -> None:
    with pytest.raises(ApiError, match=text) as caught:
        decode(raw)
    assert caught.value.code == code


@given(st.sampled_from(TOP_LEVEL), st.binary(max_size=200))
def test_no_bytes_break_the_decoder(kind: str, raw: bytes) -> None:
    for attempt in (body(kind, raw), b"k8s\x00" + raw, raw):
        try:
            assert decode(attempt)["kind"] in TOP_LEVEL
        except ApiError as error:
            assert error.code in {400, 415}


def test_the_table_refers_only_to_what_it_holds() -> None:
    scalars = {"string", "int", "bool", "bytes", "time", "microtime", "map", "bytesmap", "json"}
    for message in MESSAGES.values():
        assert {field.type for field in message.values()} <= scalars | set(MESSAGES)
    assert set(TOP_LEVEL) <= set(MESSAGES)


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
    refused = await web.post("/api/v1/namespaces/default/pods", body("Pod", META), type=MEDIA_TYPE)
    assert (refused.status, refused.json()["reason"]) == (415, "UnsupportedMediaType")
    assert "application/json, application/yaml; send a Pod as JSON" in refused.json()["message"]
