"""What webhooks are sent and what they answer: ``AdmissionReview`` of ``admission.k8s.io/v1`` (pure)."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import Any

import msgspec

from unisono.api.keys import ADMISSION_API_VERSION, META_API_VERSION
from unisono.apiserver.admission import Request
from unisono.apiserver.flow_control.depth import DEEPEST, too_deep
from unisono.errors import ApiError

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
        found = {name: review.get(name) for name in ("apiVersion", "kind")}
        if found != {"apiVersion": ADMISSION_API_VERSION, "kind": "AdmissionReview"}:
            raise BadAnswer(f"expected webhook response of {ADMISSION_API_VERSION}, Kind=AdmissionReview, got {found}")
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
