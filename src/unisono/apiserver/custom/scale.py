"""The ``scale`` subresource: replicas of an object, wherever its kind keeps them.

Reading makes a Scale out of the object; writing turns the Scale's replicas into a merge patch of the object, so that
every rule of the kind holds.
"""

from __future__ import annotations

from typing import Any

import msgspec

from unisono.api import field_error
from unisono.api.base import Base, Int32, LabelSelector, Object
from unisono.api.kind import Kind
from unisono.api.kind import Scale as Paths
from unisono.api.selecting import selector_text
from unisono.apiserver import failures
from unisono.errors import ApiError, NotFound

# The kind of the ``scale`` subresource.


class ScaleSpec(Base):
    """How many replicas there shall be."""

    replicas: Int32 | None = None


class ScaleStatus(Base):
    """How many replicas there are, and the labels by which they are found."""

    replicas: Int32 | None = None
    selector: str | None = None


class Scale(Object):
    """The replicas of an object, wherever its kind keeps them."""

    spec: ScaleSpec = msgspec.field(default_factory=ScaleSpec)
    status: ScaleStatus = msgspec.field(default_factory=ScaleStatus)


SCALES: Kind[Scale] = Kind("autoscaling", "v1", "Scale", "scales", Scale)


Document = dict[str, Any]
_LARGEST = 2**31 - 1


def paths_of(kind: Kind[Any]) -> Paths:
    """Where the kind keeps its replicas.

    Raises:
        NotFound: the kind has no scale.

    """
    if kind.scale is None:
        raise NotFound("the server could not find the requested resource")
    return kind.scale


def scale_of(kind: Kind[Any], obj: Document, *, strict: bool = True) -> Document:
    """The Scale of an object.

    Args:
        kind: the object's kind.
        obj: the object as JSON values.
        strict: an object without replicas is an error; otherwise it has 0.

    Raises:
        ApiError: 500 when the object has no replicas; the words are Kubernetes'.

    """
    paths = paths_of(kind)
    replicas = find_value(obj, paths.spec_replicas)
    if replicas is None and strict:
        message = f'Internal error occurred: the spec replicas field "{paths.spec_replicas}" does not exist'
        raise ApiError(message, code=500, reason="InternalError")
    status: Document = {"replicas": _number(find_value(obj, paths.status_replicas))}
    selector = find_value(obj, paths.selector) if paths.selector else None
    if isinstance(selector, dict):
        # A ReplicationController has labels where others have a selector.
        plain = not selector.keys() <= {"matchLabels", "matchExpressions"}
        selector = selector_text(msgspec.convert({"matchLabels": selector} if plain else selector, LabelSelector))
    if isinstance(selector, str) and selector:
        status["selector"] = selector
    shown = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    metadata = {name: obj["metadata"][name] for name in shown if name in obj["metadata"]}
    return {
        "kind": SCALES.kind,
        "apiVersion": SCALES.api_version,
        "metadata": metadata,
        "spec": {"replicas": _number(replicas)},
        "status": status,
    }


def patch_of(kind: Kind[Any], name: str, scale: Any) -> Document:
    """The merge patch that gives an object the replicas of ``scale``.

    Raises:
        ApiError: 400 when ``scale`` is no Scale, or that of another object.
        Invalid: the number of replicas is not one.

    """
    if not isinstance(scale, dict) or (scale.get("kind"), scale.get("apiVersion")) not in (
        ("Scale", "autoscaling/v1"),
        (None, None),
    ):
        raise failures.bad_request("the body must be a Scale of autoscaling/v1")
    spec = scale.get("spec") if isinstance(scale.get("spec"), dict) else {}
    replicas = (spec or {}).get("replicas", 0)
    if replicas is None:
        replicas = 0
    if isinstance(replicas, bool) or not isinstance(replicas, int):
        error = field_error.type_invalid("spec.replicas", replicas, "integer")
        raise failures.invalid(SCALES, name, [error])
    if not 0 <= replicas <= _LARGEST:
        word = "greater than or equal to 0" if replicas < 0 else f"less than or equal to {_LARGEST}"
        error = field_error.invalid("spec.replicas", replicas, f"must be {word}")
        raise failures.invalid(SCALES, name, [error])
    patch: Document = {}
    node = patch
    *parents, leaf = steps(paths_of(kind).spec_replicas)
    for parent in parents:
        node[parent] = node = {}
    node[leaf] = replicas
    meta = scale.get("metadata")
    found = meta.get("name") if isinstance(meta, dict) else None
    if found and found != name:
        raise failures.bad_request(f"the name of the object ({found}) does not match the name on the URL ({name})")
    version = meta.get("resourceVersion") if isinstance(meta, dict) else None
    if version:
        patch["metadata"] = {"resourceVersion": version}
    return patch


def steps(path: str) -> list[str]:
    """``.spec.replicas`` as names."""
    return path.removeprefix(".").split(".")


def find_value(obj: Any, path: str) -> Any:
    """The value at a path of plain names; None where a step is missing."""
    for step in steps(path):
        if not isinstance(obj, dict):
            return None
        obj = obj.get(step)
    return obj


def encode(scale: Document) -> bytes:
    """A Scale as JSON."""
    return msgspec.json.encode(scale)


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
