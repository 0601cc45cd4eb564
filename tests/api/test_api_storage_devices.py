"""Volumes, storage classes, resource claims and slices on the wire: decoding, defaults, rules."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from unisono.api import kinds
from unisono.api.decode import decode, encode
from unisono.api.defaulting import apply_defaults
from unisono.api.kind import Kind
from unisono.api.validation import validate

VOLUME = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "v"},
    "spec": {
        "capacity": {"storage": "1024Mi"},
        "accessModes": ["ReadWriteOnce"],
        "scaleIO": {"system": "x"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": []}]}},
    },
}
STORAGE_CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "c"},
    "provisioner": "p",
}
CSI_NODE = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "CSINode",
    "metadata": {"name": "n"},
    "spec": {"drivers": [{"name": "d", "nodeID": "i", "allocatable": {"count": 2}}]},
}
CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "c", "namespace": "ns"},
    "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
}
SLICE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "s"},
    "spec": {
        "driver": "d",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "n",
        "devices": [
            {
                "name": "g0",
                "attributes": {"a": {"int": 1}, "b": {"bool": True}, "c": {"string": "x"}, "d": {"version": "1.0.0"}},
                "capacity": {"memory": {"value": "8Gi"}},
            }
        ],
    },
}
DEVICE_CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": "true"}}], "extendedResourceName": "x.com/gpu"},
}


def kind_of(value: dict[str, Any]) -> Kind[Any]:
    kind = kinds.find(value["apiVersion"], value["kind"])
    assert kind is not None
    return kind


def errors(value: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    kind = kind_of(value)
    new, before = decode(kind, value).obj, decode(kind, old).obj if old else None
    for obj in (new, before):
        if obj is not None:
            apply_defaults(kind, obj)
    return [error.message() for error in validate(kind, new, before)]


def changed(value: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {**value, "spec": {**value["spec"], **spec}}


@pytest.mark.parametrize(
    "value", [VOLUME, STORAGE_CLASS, CSI_NODE, CLAIM, SLICE, DEVICE_CLASS], ids=lambda v: v["kind"]
)
def test_objects_come_back_as_they_were(value: dict[str, Any]) -> None:
    decoded = decode(kind_of(value), value)
    assert (decoded.unknown_fields, decoded.type_errors) == ([], [])
    again = msgspec.json.decode(encode(decoded.obj))
    assert {key: part for key, part in again.items() if part != {}} == value
    assert errors(value) == []


def test_defaults() -> None:
    volume, claim, storage = (decode(kind_of(v), v).obj for v in (VOLUME, CLAIM, STORAGE_CLASS))
    for value, obj in ((VOLUME, volume), (CLAIM, claim), (STORAGE_CLASS, storage)):
        apply_defaults(kind_of(value), obj)
    assert (volume.spec.volume_mode, volume.spec.persistent_volume_reclaim_policy) == ("Filesystem", "Retain")
    assert volume.spec.capacity == {"storage": "1Gi"}
    assert (storage.reclaim_policy, storage.volume_binding_mode) == ("Delete", "Immediate")
    assert (claim.spec.devices.requests[0].exactly.allocation_mode, claim.spec.devices.requests[0].exactly.count) == (
        "ExactCount",
        1,
    )


def request(**exactly: Any) -> list[dict[str, Any]]:
    return [{"name": "r", "exactly": {"deviceClassName": "gpu", **exactly}}]


BROKEN: list[tuple[dict[str, Any], str]] = [
    (changed(VOLUME, accessModes=None), "spec.accessModes: Required value"),
    (changed(VOLUME, scaleIO=None), "spec: Required value: must specify a volume type"),
    (changed(VOLUME, hostPath={"path": "/x"}), "spec: Forbidden: may not specify more than 1 volume type"),
    (
        changed(VOLUME, scaleIO=None, nodeAffinity=None, local={"path": "/x"}),
        "spec.nodeAffinity: Required value: Local volume requires node affinity",
    ),
    (
        changed(CLAIM, devices={"requests": request(count=-1)}),
        "spec.devices.requests[0].exactly.count: Invalid value: -1: must be greater than or equal to 1",
    ),
    (
        changed(CLAIM, devices={"requests": request(allocationMode="All", count=2)}),
        "spec.devices.requests[0].exactly.count: Invalid value: 2: must not be specified when allocationMode is 'All'",
    ),
    (
        changed(CLAIM, devices={"requests": [*request(), *request()]}),
        'spec.devices.requests[1].name: Duplicate value: "r"',
    ),
    (changed(SLICE, driver=""), "spec.driver: Required value"),
]


@pytest.mark.parametrize(("value", "message"), BROKEN, ids=[message for _, message in BROKEN])
def test_what_is_broken_is_named(value: dict[str, Any], message: str) -> None:
    assert message in errors(value)


def test_what_must_stay() -> None:
    assert "spec: Invalid value" in errors(changed(CLAIM, devices={"requests": request(count=2)}), CLAIM)[0]
    assert "spec.nodeName: Invalid value" in errors(changed(SLICE, nodeName="m"), SLICE)[0]
    other = {**STORAGE_CLASS, "provisioner": "q"}
    assert errors(other, STORAGE_CLASS) == ["provisioner: Forbidden: updates to provisioner are forbidden."]
    assert "immutable" in errors(changed(VOLUME, scaleIO={"system": "y"}), VOLUME)[0]
