"""Answers to admission reviews: a patch with defaults, or yes or no with the reason (pure)."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from unisono.api import kinds
from unisono.api.annotations import SUBMITTED
from unisono.api.base import Object
from unisono.api.core import ConfigMap
from unisono.api.decode import Decoded, decode
from unisono.api.defaulting import apply_defaults
from unisono.api.documents import carry_over, json_diff
from unisono.api.keys import ADMISSION_API_VERSION
from unisono.api.kind import Kind
from unisono.api.kind_families import FLOW_KINDS
from unisono.api.kinds import find
from unisono.api.seal import seal, seals
from unisono.api.selecting import controller_of
from unisono.api.validation import validate
from unisono.api.validation.training import object_warnings
from unisono.apiserver.admission import Operation, Request, Rule, Settings, View, cluster, jobs, pods
from unisono.apiserver.admission.cluster import MayUse, note_queues, unheeded
from unisono.apiserver.admission.request import Clocked
from unisono.apiserver.failures import invalid
from unisono.errors import ApiError, UnisonoError
from unisono.jobkinds.idle_fields import idle_fields
from unisono.jobkinds.registry import ALL, foreign_kind, job_kind
from unisono.jobkinds.tables import ForeignObject

# Which rules a request has to pass; the rules themselves are those of the embedded API server.

_ACCOUNT, _CONTROLLER_MANAGER = "system:serviceaccount:", "system:kube-controller-manager"


def _of_an_operator(request: Request) -> bool:
    """What a foreign operator makes for another object has no user of its own."""
    made_by = request.user.startswith(_ACCOUNT) or request.user == _CONTROLLER_MANAGER
    return made_by and controller_of(request.object) is not None


def note_user(request: Request, view: View) -> None:
    """Write down who submits an object."""
    if not _of_an_operator(request):
        cluster.note_user(request, view)


def check_use(may_use: cluster.MayUse, request: Request, view: View) -> None:
    """Who submits an object may use its queue.

    An operator need not be allowed to: what it makes is held to what the server has written on its outermost owner. A
    PodGroup is not made for pods that were looked at.

    Raises:
        ApiError: 403 naming the queue.
    """
    if request.kind is not kinds.POD_GROUPS and _of_an_operator(request):
        cluster.check_namespace(request, view)
    else:
        cluster.check_use(may_use, request, view)


PREPARING: Mapping[str, tuple[Rule, ...]] = {kinds.JOBS.resource: (cluster.queue_of_namespace,)}
"""By resource: what completes an object before its defaults."""

CHANGING: Mapping[str, tuple[Rule, ...]] = {
    kinds.JOBS.resource: (jobs.settle_scale, note_user),
    kinds.POD_GROUPS.resource: (jobs.queue_of_namespace, note_user),
}
"""By resource: what completes an object in view of others, after its defaults."""

_CHECKING: Mapping[str, tuple[Rule, ...]] = {
    kinds.JOBS.resource: (jobs.check_job_queue,),
    kinds.POD_GROUPS.resource: (jobs.check_group_queue,),
    kinds.PODS.resource: (pods.check_disruption_budget,),
}
_QUEUES = (jobs.protect, jobs.check_parent, jobs.check_family)


def checking(kind: Kind[Any], settings: Settings, may_use: cluster.MayUse) -> Iterator[Rule]:
    """What refuses an object of the kind: in view of others, or for its size."""
    yield from _CHECKING.get(kind.resource, ())
    if job_kind(kind) is not None:
        yield partial(check_use, may_use)
    if kind is kinds.QUEUES:
        yield from (partial(rule, settings) for rule in _QUEUES)
        yield cluster.check_notes
    yield partial(jobs.check_size, settings)


_OWN: tuple[Kind[Any], ...] = (kinds.JOBS, kinds.POD_GROUPS, *FLOW_KINDS)
_OTHERS = frozenset(each.kind.resource for each in ALL if each.kind not in _OWN) | {kinds.CONFIG_MAPS.resource}


def is_foreign(kind: Kind[Any]) -> bool:
    """Whether the API server itself, or its own operator, defaults and validates a kind."""
    return kind.resource in _OTHERS or kind.struct is ForeignObject


_SETTINGS = Settings()
# Longest text of a mistake: it may quote the object.
_LONGEST = 1024


class BadReview(UnisonoError):
    """The request is no admission review."""


@dataclass(frozen=True, slots=True)
class Question:
    """What the API server asks.

    Attributes:
        uid: to be repeated in the answer.
        kind: of the object; None for kinds that are not ours.
        raw, old_raw: the object as it will be (for a deletion None) and as it is (None when it is new).
        size: bytes of the request.
    """

    uid: str
    operation: str
    kind: Kind[Any] | None
    name: str
    namespace: str
    subresource: str
    raw: dict[str, Any] | None
    old_raw: dict[str, Any] | None
    user: str
    groups: tuple[str, ...] = ()
    size: int = 0

    @property
    def leaving(self) -> bool:
        """The object is on its way out: it must get there, whatever it looks like."""
        return self.operation == "UPDATE" and bool(((self.raw or {}).get("metadata") or {}).get("deletionTimestamp"))


def read(body: bytes) -> Question:
    """The question of a request's body.

    Raises:
        BadReview: it is no AdmissionReview of version ``admission.k8s.io/v1``.
    """
    try:
        review = msgspec.json.decode(body)
        if review.get("apiVersion") != ADMISSION_API_VERSION or review.get("kind") != "AdmissionReview":
            raise BadReview(f"expected an AdmissionReview of {ADMISSION_API_VERSION}")
        request = review["request"]
        group, version, kind = (request["kind"][key] for key in ("group", "version", "kind"))
        return Question(
            uid=str(request["uid"]),
            operation=str(request["operation"]),
            kind=_kind(f"{group}/{version}" if group else version, kind),
            name=str(request.get("name") or ""),
            namespace=str(request.get("namespace") or ""),
            subresource=str(request.get("subResource") or ""),
            raw=request.get("object"),
            old_raw=request.get("oldObject"),
            user=str((request.get("userInfo") or {}).get("username") or ""),
            groups=tuple(map(str, (request.get("userInfo") or {}).get("groups") or ())),
            size=len(body),
        )
    except (msgspec.DecodeError, AttributeError, KeyError, TypeError, RecursionError) as error:
        raise BadReview(f"this is no AdmissionReview: {error}") from error


def _kind(api_version: str, kind: str) -> Kind[Any] | None:
    return find(api_version, kind) or foreign_kind(api_version, kind)


def completed(
    question: Question, view: Clocked, may_use: MayUse = lambda _request, _queue: True
) -> dict[str, Any] | None:
    """The object with its defaults, a new Job also with its seal; None where there is nothing to complete.

    Kinds of others get nothing but what admission says of their author.
    """
    kind, raw = question.kind, question.raw
    if kind is None or raw is None or question.subresource or question.leaving:
        return None
    foreign = is_foreign(kind)
    decoded = decode(kind, _copy(raw))
    if decoded.type_errors and not foreign:
        return None
    before = msgspec.to_builtins(decoded.obj)
    old = _decoded(kind, question.old_raw)
    request = _request(question, kind, decoded.obj, old.obj if old is not None else None)
    if not foreign:
        for rule in PREPARING.get(kind.resource, ()):
            rule(request, view)
        apply_defaults(kind, decoded.obj)
        for rule in CHANGING.get(kind.resource, ()):
            rule(request, view)
    # Of the others a policy refuses who says so, unless they may act for others.
    if kind not in SUBMITTED and not _of_an_operator(request):
        cluster.keep_user(request, view)
    note_queues(may_use, request, view)
    if seals(kind, question.operation):
        seal(decoded.obj)
    after: dict[str, Any] = carry_over(raw, before, msgspec.to_builtins(decoded.obj))
    # The version in which the object was written is not ours to change.
    return after | {key: raw[key] for key in ("apiVersion", "kind") if key in raw}


def patching(question: Question, after: dict[str, Any] | None) -> dict[str, Any]:
    """Yes, with the way from the object as it was asked about to ``after``; None leaves it as it is."""
    answer = _answer(question)
    operations = json_diff(question.raw, after) if after is not None else []
    if operations:
        patch = base64.b64encode(msgspec.json.encode(operations)).decode()
        answer["response"] |= {"patchType": "JSONPatch", "patch": patch}
    return answer


def sealing(question: Question) -> bool:
    """The review that completes the object is also the one that checks it."""
    return question.kind is not None and not question.subresource and seals(question.kind, question.operation)


def check(
    question: Question,
    view: Clocked,
    settings: Settings = _SETTINGS,
    advise: Callable[[ConfigMap], list[str]] = lambda _map: [],
    may_use: MayUse = lambda _request, _queue: True,
) -> dict[str, Any]:
    """Yes, perhaps with warnings, or no with the Status that the client gets.

    Args:
        question: what the API server asks.
        view: other objects.
        settings: of the rules.
        advise: says what to tell the writer of a ConfigMap.
        may_use: whether roles let the user use the queue of a name.
    """
    kind = question.kind
    if kind is None or question.subresource or question.leaving:
        return _answer(question)
    warnings: list[str] = []
    try:
        old = _decoded(kind, question.old_raw)
        new = old if question.operation == "DELETE" else _decoded(kind, question.raw)
        if new is None:
            return _answer(question)
        if question.operation != "DELETE" and not is_foreign(kind):
            problems = [*new.type_errors, *validate(kind, new.obj, old.obj if old else None)]
            if problems:
                raise invalid(kind, question.name, problems)
        before = old.obj if old is not None and question.operation == "UPDATE" else None
        request = _request(question, kind, new.obj, before)
        for rule in checking(kind, settings, may_use):
            rule(request, view)
        if question.operation != "DELETE":
            warnings = [*object_warnings(kind, new.obj), *unheeded(request, view)]
            warnings += [] if is_foreign(kind) else idle_fields(kind, new.obj)
            warnings += advise(new.obj) if isinstance(new.obj, ConfigMap) else ()
    except ApiError as error:
        return _answer(question, error)
    answer = _answer(question)
    if warnings:
        answer["response"]["warnings"] = warnings
    return answer


def failed(question: Question, error: Exception) -> dict[str, Any]:
    """No, because of a mistake in this webhook that the object has brought to light: nothing unchecked passes."""
    name = "/".join(part for part in (question.namespace, question.name) if part)
    what = question.kind.resource if question.kind is not None else "object"
    message = f'{what} "{name}" cannot be checked: {type(error).__name__}: {error}'[:_LONGEST]
    return _answer(question, ApiError(message, code=500, reason="InternalError"))


def refused(answer: dict[str, Any]) -> bool:
    """The answer is no."""
    return not answer["response"]["allowed"]


def _copy(raw: dict[str, Any]) -> dict[str, Any]:
    """What came as JSON once more, so that nothing of it is shared; that is faster than to copy it piece by piece."""
    copied: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(raw))
    return copied


def _decoded(kind: Kind[Any], raw: dict[str, Any] | None) -> Decoded[Object] | None:
    if raw is None:
        return None
    decoded = decode(kind, _copy(raw))
    # What is stored may be older than this webhook: then it has no defaults yet.
    apply_defaults(kind, decoded.obj)
    meta = decoded.obj.metadata
    if not meta.name and meta.generate_name:
        # The API server makes the name after it has asked.
        meta.name = f"{meta.generate_name}xxxxx"
    return decoded


def _request(question: Question, kind: Kind[Any], obj: Object, old: Object | None) -> Request:
    operation: Operation = question.operation  # type: ignore[assignment]
    name = question.name or obj.metadata.name
    return Request(
        operation,
        kind,
        question.namespace or None,
        name,
        obj,
        old,
        question.subresource,
        question.user,
        question.groups,
    )


def _answer(question: Question, error: ApiError | None = None) -> dict[str, Any]:
    response: dict[str, Any] = {"uid": question.uid, "allowed": error is None}
    if error is not None:
        status = {"code": error.code, "reason": error.reason, "message": error.message}
        response["status"] = status | ({"details": error.details} if error.details else {})
    return {"apiVersion": ADMISSION_API_VERSION, "kind": "AdmissionReview", "response": response}
