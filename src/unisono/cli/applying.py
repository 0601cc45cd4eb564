"""Create or change the objects of manifests on a server, by the three-way merge of kubectl's ``apply``."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from unisono.api.documents import apply_merge_patch, merge_diff
from unisono.api.keys import LAST_APPLIED
from unisono.errors import AlreadyExists, ApiError, NotFound, Unavailable, UnisonoError
from unisono.jobkinds.others_kinds import way_out
from unisono.kube.discovery import Resource, ResourceMap, UnknownKind, discover, request_json

if TYPE_CHECKING:
    from unisono.cli.manifests import Manifest
    from unisono.kube.http import HttpClient


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of one manifest."""

    resource: Resource
    action: str
    object: dict[str, Any]

    @property
    def name(self) -> str:
        """Name that the server gave or kept."""
        return str(self.object["metadata"]["name"])

    @property
    def line(self) -> str:
        """``job.batch.volcano.sh/hello created``."""
        return f"{self.resource.title}/{self.name} {self.action}"


def placed(manifest: Manifest, resource: Resource, namespace: str) -> str | None:
    """Namespace of the manifest's object, written into its metadata; None for cluster-scoped kinds."""
    if not resource.namespaced:
        return None
    return str(manifest.metadata.setdefault("namespace", namespace))


async def create(client: HttpClient, resources: ResourceMap, manifest: Manifest, namespace: str) -> Applied:
    """POST one manifest; unknown fields are refused.

    Raises:
        AlreadyExists: an object of that name exists.
        ApiError: the server refuses it.
    """
    instead = way_out(manifest.api_version, manifest.kind)
    resource = resources.of(manifest.api_version, manifest.kind, manifest.where, instead)
    path = resource.path(placed(manifest, resource, namespace))
    answer = await _located(
        manifest,
        request_json(
            client, "POST", path, body=with_last_applied(manifest.value), params=_params(), warned=_teller(manifest)
        ),
    )
    return Applied(resource, "created", answer)


async def apply(client: HttpClient, resources: ResourceMap, manifest: Manifest, namespace: str) -> Applied:
    """Create the manifest's object, or bring the live one to it by a three-way merge patch.

    Raises:
        ApiError: the server refuses it.
    """
    instead = way_out(manifest.api_version, manifest.kind)
    resource = resources.of(manifest.api_version, manifest.kind, manifest.where, instead)
    where = placed(manifest, resource, namespace)
    if not manifest.metadata.get("name"):
        return await create(client, resources, manifest, namespace)
    path = resource.path(where, manifest.name)
    try:
        live = await request_json(client, "GET", path)
    except NotFound:
        try:
            return await create(client, resources, manifest, namespace)
        except AlreadyExists:  # another client was faster: then it is a change
            live = await request_json(client, "GET", path)
    patch = three_way_patch(manifest.value, live)
    if not patch:
        return Applied(resource, "unchanged", live)
    answer = await _located(
        manifest,
        request_json(
            client,
            "PATCH",
            path,
            body=patch,
            params=_params(),
            content_type="application/merge-patch+json",
            warned=_teller(manifest),
        ),
    )
    return Applied(resource, "configured", answer)


Work = Callable[["HttpClient", ResourceMap, "Manifest", str], Awaitable[Applied]]


async def carry_out(
    work: Work, client: HttpClient, manifests: Sequence[Manifest], namespace: str, tell: Callable[[Applied], None]
) -> None:
    """Do it with each manifest in their order; one that the server refuses is named, and does not hold up the others.

    Args:
        work: `create` or `apply`.
        client: of the server.
        manifests: what the files hold.
        namespace: of manifests that name none.
        tell: hears of each object as soon as it is done.

    Raises:
        UnisonoError: some were refused; the sentence counts them.
        ApiError: the server cannot be asked, or does not know the user.
    """
    resources, refused = await discover(client), 0
    for manifest in manifests:
        try:
            try:
                result = await work(client, resources, manifest, namespace)
            except UnknownKind:
                # A definition that stood before it may have come in the meantime.
                resources = await discover(client)
                result = await work(client, resources, manifest, namespace)
        except UnknownKind as error:
            refused += 1
            _say("Error:", "red", str(error))
        except ApiError as error:
            if isinstance(error, Unavailable) or error.code == 401:
                raise
            refused += 1
            _say("Error:", "red", error.message)
        else:
            tell(result)
    if refused:
        raise UnisonoError(f"{refused} of {len(manifests)} objects {'was' if refused == 1 else 'were'} refused.")


def _say(word: str, colour: str, text: str) -> None:
    click.echo(f"{click.style(word, fg=colour)} {text}", err=True)


def _teller(manifest: Manifest) -> Callable[[str], None]:
    """Says a warning of the server about a manifest, as kubectl does."""

    def tell(text: str) -> None:
        _say("Warning:", "yellow", manifest.told(text))

    return tell


def _params() -> dict[str, str]:
    return {"fieldManager": "unisono", "fieldValidation": "Strict"}


async def _located(manifest: Manifest, request: Any) -> dict[str, Any]:
    """Await a request; an error of the server says which manifest it is about."""
    try:
        answer = await request
    except ApiError as error:
        error.message = manifest.told(error.message)
        raise
    if not isinstance(answer, dict):
        raise ApiError(manifest.told("the server's answer is not a Kubernetes object: is this a Kubernetes API?"))
    return answer


def last_applied_text(manifest: dict[str, Any]) -> str:
    """The annotation's value for a manifest: its JSON without the annotation itself."""
    copy = dict(manifest)
    metadata = dict(copy.get("metadata") or {})
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != LAST_APPLIED}
    metadata["annotations"] = annotations
    copy["metadata"] = metadata
    return json.dumps(copy, separators=(",", ":"), sort_keys=True) + "\n"


def with_last_applied(manifest: dict[str, Any]) -> dict[str, Any]:
    """The manifest with the annotation that the next ``apply`` compares with."""
    metadata = dict(manifest.get("metadata") or {})
    metadata["annotations"] = {**(metadata.get("annotations") or {}), LAST_APPLIED: last_applied_text(manifest)}
    return {**manifest, "metadata": metadata}


def three_way_patch(manifest: dict[str, Any], live: dict[str, Any]) -> dict[str, Any]:
    """JSON merge patch (RFC 7386) that brings ``live`` to ``manifest``.

    Fields that the last applied manifest had and this one has no more are removed; fields that others set are kept.
    Empty when there is nothing to change.
    """
    before = _recorded(live)
    desired = with_last_applied(manifest)
    goal = apply_merge_patch(apply_merge_patch(live, _deletions(before or {}, desired)), desired)
    patch = merge_diff(live, goal)
    record = desired["metadata"]["annotations"][LAST_APPLIED]
    if patch == {"metadata": {"annotations": {LAST_APPLIED: record}}} and before == json.loads(record):
        return {}  # the same content, written with another order of keys
    return patch


def _recorded(live: dict[str, Any]) -> dict[str, Any] | None:
    """The manifest of the last apply; None when there was none or the record is damaged."""
    text = ((live.get("metadata") or {}).get("annotations") or {}).get(LAST_APPLIED)
    try:
        recorded = json.loads(text) if text else None
    except ValueError:
        return None
    return recorded if isinstance(recorded, dict) else None


def _deletions(before: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {}
    for key, value in before.items():
        if key not in wanted:
            patch[key] = None
        elif isinstance(value, dict) and isinstance(wanted[key], dict) and (inner := _deletions(value, wanted[key])):
            patch[key] = inner
    return patch
