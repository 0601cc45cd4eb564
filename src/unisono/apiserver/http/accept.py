"""Content negotiation: which form of an object a client reads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from unisono.apiserver.http.status import not_acceptable

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
    found = []
    for part in accept.split(","):
        media_type, *rest = (piece.strip() for piece in part.split(";"))
        params = {}
        for piece in rest:
            key, _, value = piece.partition("=")
            params[key.strip().lower()] = value.strip().strip('"')
        quality = _quality(params.pop("q", "1"))
        if media_type and quality > 0:
            found.append(Clause(media_type.lower(), params, quality))
    return tuple(sorted(found, key=lambda clause: -clause.quality))


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
    wanted = clause.params.get("as", "")
    if not wanted:
        return Form(media)
    version = clause.params.get("v", "v1")
    group = clause.params.get("g", "meta.k8s.io")
    if wanted not in _TRANSFORMS or version not in _META_VERSIONS or group != "meta.k8s.io":
        return None
    return Form(media, wanted.removesuffix("List"), version)


def accepts_gzip(accept_encoding: str) -> bool:
    """True when the client asks for gzip."""
    return any(clause.media_type == "gzip" for clause in clauses(accept_encoding))
