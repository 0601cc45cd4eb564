"""Forms of answers: which encodings a client accepts, and errors and successes as ``Status`` objects."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import msgspec

from unisono.errors import ApiError, Unavailable

# Errors and successes as Kubernetes ``Status`` objects, and the errors that only HTTP knows.

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


def too_many_requests(
    message: str = "the server has received too many requests and has asked us to try again later",
) -> ApiError:
    """429 with ``Retry-After: 1``."""
    return Unavailable(message, code=429, reason="TooManyRequests", details={"retryAfterSeconds": 1})


def internal_error() -> ApiError:
    """500 without any inner detail: the log has it, the client must not."""
    return ApiError("Internal error occurred: the server's log says more", code=500, reason="InternalError")


# Content negotiation: which form of an object a client reads.

Media = Literal["json", "yaml", "protobuf"]
PROTOBUF = "application/vnd.kubernetes.protobuf"
OFFERED = ("application/json", "application/yaml", PROTOBUF)

_TRANSFORMS = {"Table", "PartialObjectMetadata", "PartialObjectMetadataList"}
_META_VERSIONS = {"v1", "v1beta1"}


@dataclass(frozen=True, slots=True)
class Form:
    """How the answer is written.

    Attributes:
        media: encoding of the body.
        transform: ``""`` for whole objects, else ``Table`` or ``PartialObjectMetadata``.
        version: version of group ``meta.k8s.io`` for a transform.
    """

    media: Media = "json"
    transform: str = ""
    version: str = "v1"


@dataclass(frozen=True, slots=True)
class Clause:
    """One media range of an Accept header."""

    media_type: str
    params: dict[str, str]
    quality: float


@lru_cache(maxsize=256)
def clauses(accept: str) -> tuple[Clause, ...]:
    """The media ranges of an Accept header, best first; ranges with quality 0 are left out."""
    ranges = []
    for part in accept.split(","):
        media_type, *rest = (piece.strip() for piece in part.split(";"))
        params = {}
        for piece in rest:
            key, _, value = piece.partition("=")
            params[key.strip().lower()] = value.strip().strip('"')
        quality = _quality(params.pop("q", "1"))
        if media_type and quality > 0:
            ranges.append(Clause(media_type.lower(), params, quality))
    return tuple(sorted(ranges, key=lambda clause: -clause.quality))


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


@lru_cache(maxsize=256)
def negotiate(accept: str) -> Form:
    """Pick the first form of the Accept header that can be produced.

    Raises:
        ApiError: 406 when none can.
    """
    ranges = clauses(accept)
    if not ranges:
        return Form()
    for clause in ranges:
        form = _form(clause)
        if form is not None:
            return form
    if any(clause.media_type == PROTOBUF and "as" not in clause.params for clause in ranges):
        # Costly to make, so that only a client gets it that reads nothing else.
        return Form("protobuf")
    raise not_acceptable(OFFERED)


def _form(clause: Clause) -> Form | None:
    media: Media
    if clause.media_type in {"application/json", "*/*", "application/*"}:
        media = "json"
    elif clause.media_type in {"application/yaml", "application/x-yaml"}:
        media = "yaml"
    else:
        return None
    transform = clause.params.get("as", "")
    if not transform:
        return Form(media)
    version = clause.params.get("v", "v1")
    group = clause.params.get("g", "meta.k8s.io")
    if transform not in _TRANSFORMS or version not in _META_VERSIONS or group != "meta.k8s.io":
        return None
    return Form(media, transform.removesuffix("List"), version)


def accepts_gzip(accept_encoding: str) -> bool:
    """True when the client asks for gzip."""
    return any(clause.media_type == "gzip" for clause in clauses(accept_encoding))
