"""Carry out a fix with the rights of the user."""

from __future__ import annotations

import asyncio
import copy
from typing import TYPE_CHECKING, Any

import msgspec

from unisono.api.documents import apply_json_patch
from unisono.errors import Conflict, UnisonoError, from_status
from unisono.sdk.fixes.fix import Fix, Operation

if TYPE_CHECKING:
    from unisono.kube.http import HttpClient

# What the server or a controller wrote into an object that is created again.
_OWN = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink", "deletionTimestamp")
_LONGEST_SECONDS = 120


class CannotApply(UnisonoError):
    """The fix has no requests that would carry it out."""


async def apply_fix(client: HttpClient, fix: Fix, *, dry_run: bool = False) -> None:
    """Send the fix's requests, one after the other.

    Args:
        client: with the rights of the user.
        fix: what to do.
        dry_run: let the server check the requests and change nothing.

    Raises:
        CannotApply: it has none.
        ApiError: the server refused one; those before it stay carried out.
    """
    if not fix.operations:
        raise CannotApply(f"{fix.text}: {fix.why_not or 'there is nothing that could be sent'}.")
    for operation in fix.operations:
        await _send(client, operation, dry_run=dry_run)


async def _send(client: HttpClient, operation: Operation, *, dry_run: bool) -> None:
    kind, namespace = operation.kind, operation.namespace or None
    path = kind.path(namespace, operation.name, operation.subresource or None)
    params = {"dryRun": "All"} if dry_run else {}
    match operation.verb:
        case "patch":
            strict = {**params, "fieldValidation": "Strict"}
            await _request(client, "PATCH", path, operation.body, operation.content_type, strict)
        case "create":
            await _request(client, "POST", kind.path(namespace), operation.body, params=params)
        case "delete":
            await _request(client, "DELETE", path, _deletion("Background"), params=params)
        case "replace":
            await _replace(client, operation, path, params)


async def _replace(client: HttpClient, operation: Operation, path: str, params: dict[str, str]) -> None:
    """Another object in place of one whose fields cannot change; the server checks it before the old one goes."""
    live = await _request(client, "GET", path)
    # The patch is applied by the server, which then refuses the change of the fields: so it is applied here.
    fresh = _fresh(apply_json_patch(live, operation.body))
    probe = copy.deepcopy(fresh)
    probe["metadata"]["name"] = f"{operation.name[:50]}-check"
    await _request(client, "POST", operation.kind.path(operation.namespace or None), probe, params={"dryRun": "All"})
    if params:
        return
    await _request(client, "DELETE", path, _deletion("Foreground"))
    for _ in range(_LONGEST_SECONDS * 2):
        status, _, _ = await client.request("GET", path)
        if status == 404:
            break
        await asyncio.sleep(0.5)
    for left in range(5, -1, -1):
        try:
            await _request(client, "POST", operation.kind.path(operation.namespace or None), fresh)
            return
        except Conflict:
            if not left:
                raise
            await asyncio.sleep(0.5)


def _fresh(manifest: dict[str, Any]) -> dict[str, Any]:
    """The manifest as a user would create it."""
    fresh = copy.deepcopy(manifest)
    fresh.pop("status", None)
    meta = fresh["metadata"]
    for name in _OWN:
        meta.pop(name, None)
    spec = fresh.get("spec") or {}
    if fresh["kind"] == "Pod":
        spec.pop("nodeName", None)
    return fresh


def _deletion(policy: str) -> dict[str, str]:
    return {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy}


async def _request(
    client: HttpClient,
    method: str,
    path: str,
    body: Any = None,
    content_type: str = "application/json",
    params: dict[str, str] | None = None,
) -> Any:
    encoded = None if body is None else msgspec.json.encode(body)
    status, _, answer = await client.request(method, path, body=encoded, params=params or {}, content_type=content_type)
    document = msgspec.json.decode(answer) if answer else {}
    if status >= 400:
        raise from_status(document, status)
    return document
