"""What webhooks are shown and answer: which requests, under which conditions, as ``AdmissionReview`` (pure)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from unisono.api.cel import CompileError, CostError, EvaluationError
from unisono.api.groups import admission_registration
from unisono.api.keys import ADMISSION_API_VERSION, META_API_VERSION
from unisono.api.kind import Kind
from unisono.api.selecting import is_empty, selects
from unisono.apiserver import encoding
from unisono.apiserver.admission import Request
from unisono.apiserver.custom import rules
from unisono.apiserver.custom.kinds import CustomObject
from unisono.apiserver.flow_control import DEEPEST, too_deep
from unisono.errors import ApiError

# CEL conditions of webhooks.


class ConditionError(ValueError):
    """A condition cannot be evaluated."""


def met(conditions: Iterable[admission_registration.MatchCondition] | None, variables: dict[str, Any]) -> bool:
    """Whether all conditions hold.

    Args:
        conditions: of the webhook.
        variables: ``request``, ``object`` and ``oldObject`` as JSON values.

    Raises:
        ConditionError: one cannot be evaluated, and none is false.
    """
    left = rules.budget()
    trouble = ""
    for condition in conditions or ():
        try:
            if not rules.holds(condition.expression, variables, left):
                return False
        except (CompileError, EvaluationError, CostError) as error:
            trouble = trouble or f"{condition.name}: {error}"
    if trouble:
        raise ConditionError(trouble)
    return True


Labels = Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class ReviewTarget:
    """What of a request decides which webhooks see it.

    Attributes:
        kind: of the object, as it is stored.
        versions: in which the object can be shown, the one it was written in first.
        labels, old_labels: of the object and of what was there before; None where there is none.
        namespace_labels: of the object's namespace; None for objects that have none, which every selector fits.
    """

    kind: Kind[Any]
    operation: str
    subresource: str
    versions: tuple[str, ...]
    labels: Labels = None
    old_labels: Labels = None
    namespace_labels: Labels = None


def exempt(kind: Kind[Any]) -> bool:
    """Webhook configurations: who made a bad one must be able to repair it."""
    return kind.group == admission_registration.GROUP


def version_for(hook: admission_registration.ValidatingWebhook, target: ReviewTarget) -> str | None:
    """The version in which a webhook wants to see an object; None when it does not want to."""
    if not _selected(hook, target):
        return None
    asked = target.versions if hook.match_policy != "Exact" else target.versions[:1]
    for version in asked:
        if any(_fits(rule, target, version) for rule in hook.rules or ()):
            return version
    return None


def _selected(hook: admission_registration.ValidatingWebhook, target: ReviewTarget) -> bool:
    by_namespace = target.namespace_labels is not None and hook.namespace_selector is not None
    if by_namespace and not selects(hook.namespace_selector, target.namespace_labels):
        return False
    if hook.object_selector is None or is_empty(hook.object_selector):
        return True
    seen = [labels for labels in (target.labels, target.old_labels) if labels is not None]
    return any(selects(hook.object_selector, labels) for labels in seen)


def _fits(rule: admission_registration.RuleWithOperations, target: ReviewTarget, version: str) -> bool:
    kind = target.kind
    scope = "Namespaced" if kind.namespaced else "Cluster"
    return (
        _has(rule.operations, target.operation)
        and _has(rule.api_groups, kind.group)
        and _has(rule.api_versions, version)
        and rule.scope in (None, "*", scope)
        and _names(rule.resources or (), kind.plural, target.subresource)
    )


def _has(values: Iterable[str] | None, wanted: str) -> bool:
    return any(value in ("*", wanted) for value in values or ())


def _names(resources: Iterable[str], plural: str, subresource: str) -> bool:
    for resource in resources:
        name, _, below = resource.partition("/")
        if name in ("*", plural) and (below in ("*", subresource) if below else not subresource):
            return True
    return False


def again(hook: admission_registration.ValidatingWebhook) -> bool:
    """Whether a webhook wants to see an object that others changed after it."""
    return isinstance(hook, admission_registration.MutatingWebhook) and hook.reinvocation_policy == "IfNeeded"


# How webhooks are shown what a request is about: JSON values, their apiVersion and their labels (pure).

Document = dict[str, Any]


def api_version(request: Request, version: str) -> str:
    """The apiVersion of what is shown when a webhook wants to see the resource in ``version``."""
    if request.shown_as is not None:
        return request.shown_as[0]
    kind = request.kind
    return f"{kind.group}/{version}" if kind.group else version


def value(request: Request, obj: Any, version: str) -> Document:
    """The new or the old object of a request as JSON values."""
    if request.shown_as is not None:
        return {**obj, "apiVersion": request.shown_as[0], "kind": request.shown_as[1]}
    # A user's kind is shown in the version of the request, however it is stored.
    data = obj.encoded() if isinstance(obj, CustomObject) else encoding.render(obj)
    document: Document = encoding.json_value(data)
    return {**document, "apiVersion": api_version(request, version), "kind": request.kind.kind}


def labels(obj: Any) -> Labels:
    """The labels of an object; None for what has no metadata, such as the options of an ``exec``."""
    if not isinstance(obj, dict):
        of_object: Labels = obj.metadata.labels
        return of_object or {}
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        return None
    of_metadata = metadata.get("labels")
    return of_metadata if isinstance(of_metadata, dict) else {}


# What webhooks are sent and what they answer: ``AdmissionReview`` of ``admission.k8s.io/v1`` (pure).

_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}
_LOWEST_REFUSAL = 400


class BadAnswer(ValueError):
    """The answer is no AdmissionReview."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a webhook says.

    Attributes:
        patch: JSON Patch operations, empty when nothing changes.
        status: why not, where it is a refusal.
    """

    allowed: bool
    patch: list[Any] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    status: dict[str, Any] = field(default_factory=dict)


def question(uid: str, request: Request, version: str, objects: tuple[Any, Any], *, dry_run: bool) -> dict[str, Any]:
    """The review of a request.

    Args:
        uid: of the review.
        request: what is asked about.
        version: in which the webhook wants to see the resource.
        objects: the new and the old object as JSON values, None where there is none.
        dry_run: nothing will be stored.
    """
    kind, subresource = request.kind, request.subresource
    resource = {"group": kind.group, "version": version, "resource": kind.plural}
    if request.shown_as is None:
        shown = {"group": kind.group, "version": version, "kind": kind.kind}
        shown_first = {**shown, "version": kind.version}
    else:
        # A Binding is a Binding in whichever version its pod is asked for.
        group, _, own_version = request.shown_as[0].rpartition("/")
        shown = shown_first = {"group": group, "version": own_version, "kind": request.shown_as[1]}
    asked: dict[str, Any] = {
        "uid": uid,
        "kind": shown,
        "resource": resource,
        "requestKind": shown_first,
        "requestResource": {**resource, "version": kind.version},
        "name": request.name,
        "operation": request.operation,
        "userInfo": {"username": request.user, "groups": list(request.groups)},
        "object": objects[0],
        "oldObject": objects[1],
        "dryRun": dry_run,
        "options": _options(request.operation, dry_run=dry_run),
    }
    # A namespace is in itself, as on a real server.
    namespace = request.name if kind.resource == "namespaces" else request.namespace
    if namespace:
        asked["namespace"] = namespace
    if subresource:
        asked["subResource"] = asked["requestSubResource"] = subresource
    return {"apiVersion": ADMISSION_API_VERSION, "kind": "AdmissionReview", "request": asked}


def _options(operation: str, *, dry_run: bool) -> dict[str, Any] | None:
    kind = _OPTIONS.get(operation)
    if kind is None:
        return None
    options: dict[str, Any] = {"apiVersion": META_API_VERSION, "kind": kind}
    return {**options, "dryRun": ["All"]} if dry_run else options


def read(body: bytes, uid: str, *, may_change: bool) -> Answer:
    """The answer to the question with this uid.

    Raises:
        BadAnswer: it is none.
    """
    try:
        review = msgspec.json.decode(body)
        response = review["response"]
        header = {name: review.get(name) for name in ("apiVersion", "kind")}
        if header != {"apiVersion": ADMISSION_API_VERSION, "kind": "AdmissionReview"}:
            raise BadAnswer(f"expected webhook response of {ADMISSION_API_VERSION}, Kind=AdmissionReview, got {header}")
        if response.get("uid") != uid:
            raise BadAnswer(f'expected response.uid="{uid}", got "{response.get("uid")}"')
        patch = _patch(response, may_change=may_change)
        warnings = [str(each) for each in response.get("warnings") or ()]
        return Answer(response.get("allowed") is True, patch, warnings, dict(response.get("status") or {}))
    except (msgspec.DecodeError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise BadAnswer(f"the answer is no AdmissionReview: {error}") from None


def _patch(response: dict[str, Any], *, may_change: bool) -> list[Any]:
    encoded = response.get("patch")
    if not encoded:
        return []
    if not may_change:
        raise BadAnswer("a validating webhook must not answer with a patch")
    if response.get("patchType") != "JSONPatch":
        raise BadAnswer(f"webhook returned response.patch but its patchType is {response.get('patchType')!r}")
    try:
        patch = msgspec.json.decode(base64.b64decode(encoded, validate=True))
    except (binascii.Error, ValueError, RecursionError) as error:
        raise BadAnswer(f"response.patch cannot be read: {error}") from None
    if too_deep(patch):
        raise BadAnswer(f"response.patch is nested more than {DEEPEST} levels deep")
    if not isinstance(patch, list):
        raise BadAnswer("response.patch must be a list of operations")
    return patch


def refusal(hook: str, status: dict[str, Any]) -> ApiError:
    """The error that a refused writer gets."""
    why = f'admission webhook "{hook}" denied the request'
    code = status.get("code")
    code = code if isinstance(code, int) and code >= _LOWEST_REFUSAL else _LOWEST_REFUSAL
    said = status.get("message") or status.get("reason")
    text = f"{why}: {said}" if said else f"{why} without explanation"
    details = status.get("details")
    return ApiError(
        text, code=code, reason=str(status.get("reason") or ""), details=details if isinstance(details, dict) else None
    )
