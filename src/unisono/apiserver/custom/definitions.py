"""Definitions of kinds: read, compiled once per content, and under names that are free."""

from __future__ import annotations

import copy
import hashlib
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from unisono.api import field_error, names
from unisono.api.base import Base, Condition, Int32, LabelSelector, Object, Required
from unisono.api.conditions import find_condition, is_true
from unisono.api.core.crd import (
    CustomResourceConversion,
    CustomResourceDefinition,
    CustomResourceDefinitionNames,
    CustomResourceDefinitionStatus,
    CustomResourceDefinitionVersion,
)
from unisono.api.decode import Decoded, decode
from unisono.api.groups.admission_registration import WebhookClientConfig
from unisono.api.kind import Kind, served
from unisono.api.kind import Scale as Paths
from unisono.api.kinds import CUSTOM_RESOURCE_DEFINITIONS
from unisono.api.selecting import selector_text
from unisono.api.structural import Node, compile_schema
from unisono.api.structural.pruning import read_schema
from unisono.apiserver import failures
from unisono.apiserver.flow_control import DEEPEST, too_deep
from unisono.errors import ApiError, NotFound

# Schemas of definitions, compiled once per content: the request that writes one does it beside the event loop.

_ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
# Schemas that are on their way to the store, and so held by no definition that is served.
_MOST_ON_THEIR_WAY = 4


@dataclass(frozen=True)
class Compiled:
    """A schema without unknown words, and its node."""

    schema: dict[str, Any]
    node: Node


_lock = threading.Lock()
_known: WeakValueDictionary[bytes, Compiled] = WeakValueDictionary()
_latest: deque[Compiled] = deque(maxlen=_MOST_ON_THEIR_WAY)


def compiled(version: CustomResourceDefinitionVersion) -> Compiled:
    """The schema of a version; equal schemas are compiled once, as long as one of them is in use."""
    raw = (version.schema.open_apiv3_schema if version.schema else None) or _ANY
    key = hashlib.sha256(msgspec.json.encode(raw)).digest()
    with _lock:
        cached = _known.get(key)
    if cached is None:
        schema, _, _ = read_schema(raw, "")
        cached = Compiled(schema, compile_schema(schema))
        with _lock:
            cached = _known.setdefault(key, cached)
            _latest.append(cached)
    return cached


# Reading definitions: words that schemas do not have are told like unknown fields.


def decode_definition(kind: Kind[Any], body: dict[str, Any]) -> Decoded[Any]:
    """Decode a CustomResourceDefinition; its schemas keep only the words that schemas have."""
    decoded: Decoded[Any] = decode(kind, body)
    crd: CustomResourceDefinition = decoded.obj
    for index, version in enumerate(crd.spec.versions or ()):
        if version.schema is None or version.schema.open_apiv3_schema is None:
            continue
        at = f"spec.versions[{index}].schema.openAPIV3Schema"
        clean, unknown, errors = read_schema(version.schema.open_apiv3_schema, at)
        version.schema.open_apiv3_schema = clean
        decoded.unknown_fields.extend(unknown)
        decoded.type_errors.extend(errors)
    return decoded


# Whether the names of a definition are free: no two definitions of a group may share a name. Pure.

NAMES_ACCEPTED, ESTABLISHED, TERMINATING = "NamesAccepted", "Established", "Terminating"


class NamedSpec(Base):
    """The part of a definition's spec that decides about names."""

    group: Required = ""
    names: CustomResourceDefinitionNames = msgspec.field(default_factory=CustomResourceDefinitionNames)


class NamedDefinition(Object):
    """A definition without its schemas, which are most of its bytes."""

    spec: NamedSpec = msgspec.field(default_factory=NamedSpec)
    status: CustomResourceDefinitionStatus = msgspec.field(default_factory=CustomResourceDefinitionStatus)


NAMED_DEFINITIONS: Kind[NamedDefinition] = replace(CUSTOM_RESOURCE_DEFINITIONS, struct=NamedDefinition)  # type: ignore[arg-type, assignment]


def accept_names(crd: CustomResourceDefinition, others: Iterable[NamedDefinition], now: str) -> None:
    """Set ``status.acceptedNames`` and the conditions NamesAccepted and Established of ``crd``.

    Args:
        crd: changed in place.
        others: all definitions; those of other groups, and ``crd`` itself, do not count.
        now: RFC 3339, for conditions that change.
    """
    taken = [
        each.status.accepted_names
        for each in others
        if each.spec.group == crd.spec.group and each.metadata.name != crd.metadata.name and each.status.accepted_names
    ]
    resources = {name for each in taken for name in (each.plural, each.singular, *(each.short_names or ())) if name}
    kinds = {name for each in taken for name in (each.kind, each.list_kind) if name}
    accepted, conflict = _compare(crd, resources, kinds)
    crd.status.accepted_names = accepted
    if conflict is None:
        set_condition(crd, NAMES_ACCEPTED, "True", "NoConflicts", "no conflicts found", now)
        # The server knows the kind as soon as the definition is stored.
        set_condition(crd, ESTABLISHED, "True", "InitialNamesAccepted", "the initial names have been accepted", now)
        return
    set_condition(crd, NAMES_ACCEPTED, "False", *conflict, now)
    if not established(crd):
        set_condition(crd, ESTABLISHED, "False", "NotAccepted", "not all names are accepted", now)


def _compare(
    crd: CustomResourceDefinition, resources: set[str], kinds: set[str]
) -> tuple[CustomResourceDefinitionNames, tuple[str, str] | None]:
    """The names that are accepted now, and reason and message of the last conflict."""
    requested = crd.spec.names
    accepted = copy.copy(crd.status.accepted_names) or CustomResourceDefinitionNames()
    conflict: tuple[str, str] | None = None
    for attribute, reason, used in (
        ("plural", "PluralConflict", resources),
        ("singular", "SingularConflict", resources),
        ("short_names", "ShortNamesConflict", resources),
        ("kind", "KindConflict", kinds),
        ("list_kind", "ListKindConflict", kinds),
    ):
        value, before = getattr(requested, attribute), getattr(accepted, attribute)
        asked = value if attribute == "short_names" else [value]
        mine = (before or ()) if attribute == "short_names" else (before,)
        clashes = [name for name in asked or () if name in used and name not in mine]
        if clashes:
            texts = [f'"{name}" is already in use' for name in clashes]
            conflict = reason, texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        else:
            setattr(accepted, attribute, value)
    accepted.categories = requested.categories
    return accepted, conflict


def established(crd: CustomResourceDefinition) -> bool:
    """Whether the kind is served."""
    return has_condition(crd, ESTABLISHED)


def has_condition(crd: CustomResourceDefinition | NamedDefinition, name: str) -> bool:
    """Whether a condition is True."""
    return is_true(crd.status.conditions, name)


def set_condition(crd: CustomResourceDefinition, name: str, status: str, reason: str, message: str, now: str) -> None:
    """Set one condition; its time changes with its status only."""
    before = find_condition(crd.status.conditions, name)
    if before is not None and before.status == status:
        since = before.last_transition_time
        # An established kind keeps the reason for which it was.
        if name == ESTABLISHED:
            return
    else:
        since = now
    made = Condition(type=name, status=status, last_transition_time=since, reason=reason, message=message)
    kept = [each for each in crd.status.conditions or () if each.type != name]
    position = next((i for i, each in enumerate(crd.status.conditions or ()) if each.type == name), len(kept))
    kept.insert(position, made)
    crd.status.conditions = kept


def note_storage(crd: CustomResourceDefinition) -> None:
    """Remember the version that objects are stored in from now on."""
    stored = list(crd.status.stored_versions or ())
    stored += [each.name for each in crd.spec.versions or () if each.storage and each.name not in stored]
    crd.status.stored_versions = stored or None


# The ``scale`` subresource: replicas of an object, wherever its kind keeps them.
#
# Reading makes a Scale out of the object; writing turns the Scale's replicas into a merge patch of the object, so that
# every rule of the kind holds.

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


SCALES = served("autoscaling", "v1", Scale)

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
    body_name = meta.get("name") if isinstance(meta, dict) else None
    if body_name and body_name != name:
        raise failures.bad_request(f"the name of the object ({body_name}) does not match the name on the URL ({name})")
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


# Conversion webhooks of definitions: what they are asked, and objects out of what they answer (pure).


GROUP = "apiextensions.k8s.io"
_REVIEWS = ("v1", "v1beta1")


class BadConversion(ValueError):
    """The answer is no conversion of what was asked."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """Who converts the objects of a definition.

    Attributes:
        client: where it listens.
        review: version of ``ConversionReview`` that it is sent.
    """

    client: WebhookClientConfig
    review: str


def webhook_of(conversion: CustomResourceConversion | None) -> Webhook | None:
    """The webhook of a definition; None when versions differ in ``apiVersion`` only."""
    if conversion is None or conversion.strategy != "Webhook":
        return None
    given = conversion.webhook or {}
    client = msgspec.convert(given.get("clientConfig") or {}, WebhookClientConfig)
    review_versions = given.get("conversionReviewVersions") or ()
    return Webhook(client, next((each for each in review_versions if each in _REVIEWS), _REVIEWS[0]))


def question(webhook: Webhook, uid: str, objects: Sequence[Document], api_version: str) -> Document:
    """The review that asks for ``objects`` in ``api_version``."""
    request = {"uid": uid, "desiredAPIVersion": api_version, "objects": list(objects)}
    return {"apiVersion": f"{GROUP}/{webhook.review}", "kind": "ConversionReview", "request": request}


def read_answer(webhook: Webhook, uid: str, body: bytes) -> list[Any]:
    """The converted objects, unchecked.

    Raises:
        BadConversion: the webhook refuses, or answers something else.
    """
    try:
        review = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadConversion(f"the answer is no JSON: {error}") from None
    if too_deep(review):
        raise BadConversion(f"the answer is nested more than {DEEPEST} levels deep")
    if not isinstance(review, dict) or not isinstance(review.get("response"), dict):
        raise BadConversion("no response provided")
    response: Document = review["response"]
    if webhook.review == "v1":
        expected = f"{GROUP}/v1, Kind=ConversionReview"
        actual = f"{review.get('apiVersion')}, Kind={review.get('kind')}"
        if actual != expected:
            raise BadConversion(f"expected webhook response of {expected}, got {actual}")
        if response.get("uid") != uid:
            raise BadConversion(f'expected response.uid="{uid}", got "{response.get("uid") or ""}"')
    result = response.get("result")
    result = result if isinstance(result, dict) else {}
    if result.get("status") != "Success":
        said = result.get("message")
        raise BadConversion(str(said or f"response.result.status was '{result.get('status') or ''}', not 'Success'"))
    converted = response.get("convertedObjects")
    return converted if isinstance(converted, list) else []


def take(original: Document, converted: Any, api_version: str) -> Document:
    """A converted object: the webhook's content, labels and annotations, and all other metadata as they were.

    Raises:
        BadConversion: it is another object, another version, or no object.
    """
    if not isinstance(converted, dict):
        raise BadConversion("it is no object")
    if converted.get("apiVersion") != api_version:
        received = converted.get("apiVersion") or ""
        raise BadConversion(f"invalid groupVersion (expected {api_version}, received {received})")
    if converted.get("kind") != original["kind"]:
        raise BadConversion(f"invalid kind (expected {original['kind']}, received {converted.get('kind') or ''})")
    said, metadata = converted.get("metadata"), dict(original["metadata"])
    if not isinstance(said, dict):
        raise BadConversion("missing metadata in converted object")
    for name, word in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        before, after = metadata.get(name) or "", said.get(name) or ""
        if before != after:
            raise BadConversion(f"must have the same {word}: {before} != {after}")
    for name in ("labels", "annotations"):
        metadata.pop(name, None)
        texts = _texts(f"metadata.{name}", said.get(name))
        if texts:
            metadata[name] = texts
    header = ("apiVersion", "kind", "metadata")
    content = {name: value for name, value in converted.items() if name not in header}
    return {"apiVersion": api_version, "kind": original["kind"], "metadata": metadata, **content}


def _texts(path: str, found: Any) -> Mapping[str, str]:
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise BadConversion(f"invalid {path} of type {type(found).__name__} in converted object")
    problems = list(_wrong(path, found))
    if problems:
        raise BadConversion("; ".join(problems))
    return found


def _wrong(path: str, found: Mapping[str, Any]) -> Iterator[str]:
    for key, value in found.items():
        if not isinstance(value, str):
            yield f"{path}[{key}] must be a string, but is {type(value).__name__} in converted object"
            continue
        for problem in names.qualified_name(key):
            yield f'{path}: Invalid value: "{key}": {problem}'
        if path == "metadata.labels":
            for problem in names.label_value(value):
                yield f'{path}: Invalid value: "{value}": {problem}'
