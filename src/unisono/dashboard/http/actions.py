"""What a viewer changes from the page, sent to the API server with the viewer's own rights."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from unisono.api import kinds
from unisono.api.documents.merge import merge_diff
from unisono.api.kinds import NODES, QUEUES
from unisono.api.yaml import load_all
from unisono.dashboard.live.explaining import explain
from unisono.dashboard.views.explanation import fix_id
from unisono.errors import Conflict, Invalid, NotFound, from_status
from unisono.sdk.fixes.applying import apply_fix
from unisono.sdk.jobs.control import JobAction, send_action

if TYPE_CHECKING:
    from unisono.api.kind import Kind
    from unisono.kube.http import HttpClient


# What may stand in the path of a request to the API server.
Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._:-]{0,251}[A-Za-z0-9])?$")]


class Body(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Base of what the page sends."""


class JobRef(Body):
    """Which job is meant."""

    api_version: str
    kind: str
    namespace: Name
    name: Name


class ApplyFix(JobRef):
    """Carry out the fix of this id, or let the server check it."""

    id: str
    dry_run: bool = False


class ChangeJob(JobRef):
    """Stop, resume or delete a job."""

    action: Literal["suspend", "resume", "cancel", "delete"]


class ChangeQueue(Body):
    """Give a queue this spec, as YAML; what stood in the one that was edited and is not in it is taken away."""

    name: Name
    spec: str
    before: str = ""
    dry_run: bool = False


class WhatIf(Body):
    """Changes, as ``unisono whatif`` takes them; none asks when jobs start as it is."""

    changes: str = ""


class Cordon(Body):
    """Keep new pods off a node, or let them come again."""

    name: Name
    cordon: bool


_COMMANDS: dict[str, JobAction] = {"suspend": "AbortJob", "resume": "ResumeJob", "cancel": "TerminateJob"}


def kind_of(api_version: str, kind: str) -> Kind[Any]:
    """A kind by its names.

    Raises:
        NotFound: it is not known here.

    """
    found = kinds.find(api_version, kind)
    if found is None:
        raise NotFound(f"there is no kind {kind} of {api_version}")
    return found


async def apply(client: HttpClient, asked: ApplyFix) -> str:
    """Carry out a fix that the page has shown.

    Raises:
        Conflict: the job waits for something else by now, or the fix would do something else.
        ApiError: the server refuses it.

    """
    told = await explain(client, kind_of(asked.api_version, asked.kind), asked.namespace, asked.name)
    fix = next((each for each in told.fixes if fix_id(each) == asked.id), None)
    if fix is None:
        raise Conflict("The cluster has changed, and this fix is not what would help now: look at the new ones.")
    await apply_fix(client, fix, dry_run=asked.dry_run)
    return "The server would accept it; nothing was changed." if asked.dry_run else f"Done: {fix.text}."


async def change_job(client: HttpClient, asked: ChangeJob) -> str:
    """Stop, resume or delete a job.

    Raises:
        BadWork: jobs of this kind do not know the action.
        ApiError: the server refuses it.

    """
    kind = kind_of(asked.api_version, asked.kind)
    if asked.action == "delete":
        await client.delete(kind, asked.name, asked.namespace, propagation="Background")
        return f"{asked.kind} {asked.name} is being deleted."
    await send_action(client, kind, asked.namespace, asked.name, _COMMANDS[asked.action])
    return f"{asked.kind} {asked.name}: {asked.action} was asked for."


async def change_queue(client: HttpClient, asked: ChangeQueue) -> str:
    """Change a queue's spec; the server checks it, and its words are the answer where it refuses.

    What others have changed meanwhile stays, unless it is what is changed here.

    Raises:
        ConfigError: the text is no YAML.
        ApiError: the server refuses it.

    """
    patch = merge_diff(*await asyncio.to_thread(lambda: (_spec(asked.before), _spec(asked.spec))))
    if not patch:
        raise Invalid("nothing is to be changed")
    params = {"fieldValidation": "Strict", **({"dryRun": "All"} if asked.dry_run else {})}
    status, _, answer = await client.request(
        "PATCH",
        QUEUES.path(None, asked.name),
        body=msgspec.json.encode({"spec": patch}),
        params=params,
        content_type="application/merge-patch+json",
    )
    if status >= 400:
        raise from_status(msgspec.json.decode(answer) if answer else {}, status)
    return "The server would accept it; nothing was changed." if asked.dry_run else f"Queue {asked.name} was changed."


def _spec(text: str) -> dict[str, Any]:
    """A queue's spec as a user wrote it."""
    documents = load_all(text, "spec")
    if len(documents) > 1 or not all(isinstance(each.value, dict) for each in documents):
        raise Invalid("give the fields of the queue's spec, one a line, such as weight: 2")
    return dict(documents[0].value) if documents else {}


async def cordon(client: HttpClient, asked: Cordon) -> str:
    """Cordon or uncordon a node.

    Raises:
        ApiError: the server refuses it.

    """
    await client.patch(NODES, asked.name, {"spec": {"unschedulable": True if asked.cordon else None}})
    return f"Node {asked.name} takes {'no new pods' if asked.cordon else 'pods again'}."
