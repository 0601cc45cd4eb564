"""Creates objects on a server, or brings them to what a manifest says."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from unisono.api.base import Object
from unisono.api.decode import decode
from unisono.api.kind import Kind
from unisono.errors import Invalid
from unisono.kube.http import HttpClient
from unisono.kube.transport import error_of
from unisono.sdk.errors import BadWork
from unisono.sdk.submission import kind_of

T = TypeVar("T", bound=Object)


async def create_object(http: HttpClient, kind: Kind[T], value: dict[str, Any], namespace: str) -> T:
    """POST an object as given, so that the server sees, and refuses, fields that do not exist.

    Args:
        http: the server.
        kind: of the object.
        value: the object.
        namespace: where it goes if it names none.

    Raises:
        Invalid: it has a field that does not exist, or breaks a rule.
        ApiError: the server refuses it.

    """
    chosen = value["metadata"].setdefault("namespace", namespace)
    status, headers, body = await http.request(
        "POST",
        kind.path(chosen),
        body=msgspec.json.encode(value),
        params={"fieldManager": "unisono", "fieldValidation": "Strict"},
    )
    if status >= 300:
        error = error_of(status, headers, body)
        # Servers answer a field that does not exist as a bad request; for the caller the object is wrong either way.
        raise Invalid(error.message) if "strict decoding error" in error.message else error
    return decode(kind, msgspec.json.decode(body)).obj


async def apply_object(http: HttpClient, value: dict[str, Any], namespace: str) -> None:
    """Create an object of any known kind, or bring the live one to what ``value`` says (server-side apply).

    Raises:
        BadWork: the kind is not known, or the object has no name.
        ApiError: the server refuses it.

    """
    kind = kind_of(value)
    if kind is None:
        raise BadWork(f"{value['apiVersion']} {value['kind']} is not known here: create it with kubectl apply first.")
    name = value["metadata"].get("name")
    if not isinstance(name, str):
        raise BadWork(f"the {value['kind']} beside the job has no metadata.name: give it one.")
    chosen = value["metadata"].setdefault("namespace", namespace) if kind.namespaced else None
    await http.patch(kind, name, value, namespace=chosen, patch_type="apply")
