"""The failures of the API in Kubernetes' words; each function builds the error, the caller raises it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from unisono.api.field_error import FieldError
from unisono.api.kind import Kind
from unisono.errors import AlreadyExists, ApiError, Conflict, Gone, Invalid, NotFound, Replaced, Unavailable

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def _details(kind: Kind[Any], name: str) -> dict[str, Any]:
    details = {"name": name, "group": kind.group, "kind": kind.plural}
    return {key: value for key, value in details.items() if value}


def deleted_details(kind: Kind[Any], name: str, uid: str | None) -> dict[str, Any]:
    """Details of the Success Status that answers a delete."""
    return {**_details(kind, name), "uid": uid or ""}


def not_found(kind: Kind[Any], name: str) -> NotFound:
    """404 for an object."""
    return NotFound(f'{kind.resource} "{name}" not found', details=_details(kind, name))


def already_exists(kind: Kind[Any], name: str) -> AlreadyExists:
    """409 for a create of an existing name."""
    return AlreadyExists(f'{kind.resource} "{name}" already exists', details=_details(kind, name))


def conflict(kind: Kind[Any], name: str, why: str = MODIFIED, *, subresource: str = "") -> Conflict:
    """409 for a stale resourceVersion or a failed precondition."""
    resource = f"{kind.plural}/{subresource}" if subresource else kind.resource
    return Conflict(
        f'Operation cannot be fulfilled on {resource} "{name}": {why}',
        details={**_details(kind, name), "kind": f"{kind.plural}/{subresource}" if subresource else kind.plural},
    )


def bad_request(message: str) -> ApiError:
    """400 with the message as it is."""
    return ApiError(message, code=400, reason="BadRequest")


def forbidden(kind: Kind[Any], name: str, why: str, causes: Sequence[dict[str, str]] = ()) -> ApiError:
    """403 for what admission refuses."""
    details: dict[str, Any] = _details(kind, name)
    if causes:
        details["causes"] = list(causes)
    subject = f'{kind.resource} "{name}"' if name else kind.resource
    return ApiError(f"{subject} is forbidden: {why}", code=403, reason="Forbidden", details=details)


def invalid(kind: Kind[Any], name: str, errors: Iterable[FieldError]) -> Invalid:
    """422 with one cause per broken rule; equal messages are told once."""
    unique = {error.message(): error for error in errors}
    texts = list(unique)
    qualified = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    causes = [error.cause() for error in unique.values()]
    details = {**_details(kind, name), "kind": kind.kind, "causes": causes}
    kind_of = Replaced if any(error.path == "metadata.uid" for error in unique.values()) else Invalid
    return kind_of(f'{qualified} "{name}" is invalid: {text}', details=details)


def unsupported_media_type(accepted: Sequence[str], hint: str = "") -> ApiError:
    """415: the body has a content type that cannot be read; ``hint`` says what to do instead."""
    media_types = ", ".join(accepted)
    message = f"the body of the request was in an unknown format - accepted media types include: {media_types}"
    return ApiError(f"{message}; {hint}" if hint else message, code=415, reason="UnsupportedMediaType")


def too_old(requested: int, oldest: int) -> Gone:
    """410 for a watch that starts before the kept history."""
    return Gone(f"too old resource version: {requested} ({oldest})", code=410, reason="Expired")


def continue_expired() -> Gone:
    """410 for a page of a list whose snapshot is no longer kept."""
    return Gone(
        "The provided continue parameter is too old to display a consistent list result. "
        "You must start a new list without the continue parameter.",
        code=410,
        reason="Expired",
    )


def too_large_version(requested: int, current: int) -> Unavailable:
    """504 for a list that asks for a resourceVersion which does not exist yet."""
    message = f"Too large resource version: {requested}, current: {current}"
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    error = Unavailable(message, code=504, reason="Timeout", details={"causes": causes, "retryAfterSeconds": 1})
    error.retry_after = 1.0
    return error


def stopping() -> Unavailable:
    """503 while the server shuts down."""
    return Unavailable("the server is stopping; try again when it is up", details={"retryAfterSeconds": 1})


def storage_failed(why: str) -> Unavailable:
    """500 for a write that did not reach the disk; nothing of it is visible."""
    return Unavailable(
        f"the write could not be stored: {why}; free disk space or check the data directory, then try again",
        code=500,
        reason="InternalError",
    )


def disk_full(why: str) -> Unavailable:
    """507 for a write that found no room; with no time to try again, so that the user is told and not kept waiting."""
    return Unavailable(
        f"the write could not be stored: {why}; free disk space there, then try again: what is stored can be read, "
        "and writes work as soon as there is room",
        code=507,
        reason="InsufficientStorage",
    )
