"""How webhooks are shown what a request is about: JSON values, their apiVersion and their labels (pure)."""

from __future__ import annotations

from typing import Any

from unisono.apiserver.admission import Request
from unisono.apiserver.custom.kinds import CustomObject
from unisono.apiserver.encoding import codec
from unisono.apiserver.webhooks.matching import Labels

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
    data = obj.encoded() if isinstance(obj, CustomObject) else codec.render(obj)
    document: Document = codec.json_value(data)
    return {**document, "apiVersion": api_version(request, version), "kind": request.kind.kind}


def labels(obj: Any) -> Labels:
    """The labels of an object; None for what has no metadata, such as the options of an ``exec``."""
    if not isinstance(obj, dict):
        of_object: Labels = obj.metadata.labels
        return of_object or {}
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        return None
    found = metadata.get("labels")
    return found if isinstance(found, dict) else {}
