"""Errors and successes as Kubernetes ``Status`` objects, and the errors that only HTTP knows."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from unisono.errors import ApiError, Unavailable

BODY_TYPES = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)


def failure(error: ApiError) -> dict[str, Any]:
    """The ``Status`` of kind Failure that describes ``error``."""
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": error.message,
    }
    if error.reason:
        status["reason"] = error.reason
    if error.details:
        status["details"] = error.details
    status["code"] = error.code
    return status


def success(details: dict[str, Any] | None = None, code: int = 0) -> dict[str, Any]:
    """The ``Status`` of kind Success; ``details`` names the object, ``code`` is left out when 0."""
    status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details:
        status["details"] = details
    if code:
        status["code"] = code
    return status


def encode_failure(error: ApiError) -> bytes:
    """``failure`` as JSON."""
    return msgspec.json.encode(failure(error))


def retry_after(error: ApiError) -> int | None:
    """Whole seconds for the ``Retry-After`` header, None when the client need not be told."""
    seconds = error.details.get("retryAfterSeconds")
    if seconds is None and isinstance(error, Unavailable):
        seconds = error.retry_after
    if seconds is None and error.code == 429:
        seconds = 1
    return None if seconds is None else max(1, math.ceil(float(seconds)))


def bad_request(message: str) -> ApiError:
    """400: the request itself makes no sense."""
    return ApiError(message, code=400, reason="BadRequest")


def unauthorized() -> ApiError:
    """401: credentials were given that are not known."""
    return ApiError("Unauthorized", code=401, reason="Unauthorized")


def method_not_allowed() -> ApiError:
    """405, in the words of the API server."""
    return ApiError(
        "the server does not allow this method on the requested resource", code=405, reason="MethodNotAllowed"
    )


def not_acceptable(offered: tuple[str, ...]) -> ApiError:
    """406: none of the media types that the client reads can be produced."""
    return ApiError(
        f"only the following media types are accepted: {', '.join(offered)}", code=406, reason="NotAcceptable"
    )


def too_large(limit: int) -> ApiError:
    """413: the body is over ``limit`` bytes."""
    return ApiError(f"Request entity too large: limit is {limit}", code=413, reason="RequestEntityTooLarge")


def unsupported_media_type(accepted: tuple[str, ...], hint: str = "") -> ApiError:
    """415: the body has a content type that cannot be read; ``hint`` says what to do instead."""
    known = ", ".join(accepted)
    message = f"the body of the request was in an unknown format - accepted media types include: {known}"
    return ApiError(f"{message}; {hint}" if hint else message, code=415, reason="UnsupportedMediaType")


def too_many_requests(
    message: str = "the server has received too many requests and has asked us to try again later",
) -> ApiError:
    """429 with ``Retry-After: 1``."""
    return Unavailable(message, code=429, reason="TooManyRequests", details={"retryAfterSeconds": 1})


def internal_error() -> ApiError:
    """500 without any inner detail: the log has it, the client must not."""
    return ApiError("Internal error occurred: the server's log says more", code=500, reason="InternalError")
