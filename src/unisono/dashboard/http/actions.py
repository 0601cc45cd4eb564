"""What a viewer changes from the page, sent to the API server with the viewer's own rights."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from aiohttp import web

from unisono.api import kinds
from unisono.api.documents import merge_diff
from unisono.api.kinds import NODES, QUEUES
from unisono.api.yaml import load_all
from unisono.dashboard.live.explaining import explain
from unisono.dashboard.live.pages import Page
from unisono.dashboard.live.world import World
from unisono.dashboard.views.explanation import fix_id
from unisono.dashboard.views.wire import LogLine, Refused
from unisono.errors import ApiError, Conflict, Invalid, NotFound, UnisonoError, from_status
from unisono.sdk.fixes.applying import apply_fix
from unisono.sdk.follow.following import follow_logs
from unisono.sdk.follow.log_lines import LogSelection
from unisono.sdk.jobs.control import JobAction, send_action

if TYPE_CHECKING:
    from unisono.api.kind import Kind
    from unisono.kube.http import HttpClient
    from unisono.sdk.fixes.fix import Fix

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
    resource_kind = kinds.find(api_version, kind)
    if resource_kind is None:
        raise NotFound(f"there is no kind {kind} of {api_version}")
    return resource_kind


async def apply(client: HttpClient, asked: ApplyFix, shown: Fix | None = None) -> str:
    """Carry out a fix that the page has shown.

    Args:
        client: with the viewer's credentials.
        asked: which fix.
        shown: the fix, where a search has found it; else it is what would help now.

    Raises:
        Conflict: the job waits for something else by now, or the fix would do something else.
        ApiError: the server refuses it.
    """
    fix = shown
    if fix is None:
        explanation = await explain(client, kind_of(asked.api_version, asked.kind), asked.namespace, asked.name)
        fix = next((each for each in explanation.fixes if fix_id(each) == asked.id), None)
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


# Server-sent events: a view as it is and then what changes in it, and log lines in batches.

HEARTBEAT_SECONDS = 15.0
"""So long nothing is sent at most: the page knows by it that the server is there."""
_HEADERS = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
LOOK_SECONDS = 1.0
"""How often a stream looks whether its reader has left, while nothing is sent that would tell."""
# The part of its time that a page may spend on views: one that takes long to make is made less often.
_MOST_BUSY = 0.2
_MOST_LINES = 500
_MOST_TAIL = 10_000
# Longer lines are cut for the page; the command line shows all of them.
_LONGEST = 4096
_UNREAD_BATCHES = 4


def has_left(request: web.Request) -> bool:
    """Whether the one who asked is not there any more."""
    return request.transport is None or request.transport.is_closing()


class Events:
    """The answer to one request, as a stream of events."""

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._sent = 0.0
        self._response = web.StreamResponse(headers=_HEADERS)

    async def __aenter__(self) -> Events:
        await self._response.prepare(self._request)
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def send(self, event: str, data: Any) -> None:
        """Send one event; waits for a slow reader."""
        body = msgspec.json.encode(data)  # has no line ends of its own
        await self._write(b"event: " + event.encode() + b"\ndata: " + body + b"\n\n")

    async def look(self) -> None:
        """See whether the reader is still there, and say that the server is where nothing was sent for long.

        Raises:
            ConnectionResetError: the reader has left.
        """
        if has_left(self._request):
            raise ConnectionResetError("the reader has left")
        if asyncio.get_running_loop().time() - self._sent >= HEARTBEAT_SECONDS:
            await self._write(b": \n\n")

    async def _write(self, data: bytes) -> None:
        await self._response.write(data)
        self._sent = asyncio.get_running_loop().time()

    @property
    def response(self) -> web.StreamResponse:
        """What the handler answers."""
        return self._response


def refused_text(error: ApiError) -> str:
    """Why a session is of no use any more."""
    return f"the API server does not accept your credentials any more ({error.message.rstrip('.')})."


async def follow(events: Events, world: World, page: Page, alive: Callable[[], bool]) -> None:
    """Send a page's view and its changes until the session ends or the reader leaves."""
    loop = asyncio.get_running_loop()
    sent: dict[str, Any] | None = None
    progress = ""
    topics = tuple(page.topics)
    while alive():
        # Nothing is told when the last list has come, if it is empty: what was so before the view was made counts.
        version, ready = world.signal.version(topics), world.ready
        began = loop.time()
        try:
            view = msgspec.to_builtins(await page.view())
        except UnisonoError as error:
            await events.send("problem", str(error))
            return
        took = loop.time() - began
        if sent is None:
            await events.send("view", view)
        elif change := merge_diff(sent, view):
            await events.send("change", change)
        sent = view
        # Before what is not complete is looked at: how far it is.
        if (current := world.reading()) != progress:
            progress = current
            await events.send("reading", current)
        if world.refused is not None:
            await events.send("refused", Refused(error=refused_text(world.refused), code=401))
            return
        await asyncio.sleep(max(page.pause, took / _MOST_BUSY))
        if not ready:
            await events.look()
            continue
        while not await world.signal.changed(topics, version, LOOK_SECONDS) and alive():
            await events.look()
    await events.send("refused", Refused(error="you were signed out elsewhere.", code=401))


@dataclass(frozen=True, slots=True)
class Batch:
    """An event for the page; an empty name says only that there was nothing for a while."""

    event: str
    data: Any = None


async def batches(
    client: HttpClient, kind: Kind[Any], namespace: str, name: str, container: str, tail: int
) -> AsyncGenerator[Batch, None]:
    """The last lines and then every line as it comes; the last batch is an end, or why there is no more."""
    selection = LogSelection(container=container, params={"tailLines": str(min(max(tail, 1), _MOST_TAIL))})
    lines: asyncio.Queue[LogLine | Refused | None] = asyncio.Queue(_UNREAD_BATCHES * _MOST_LINES)

    async def read() -> None:
        end: Refused | None = None
        try:
            async with aclosing(follow_logs(client, kind, namespace, name, selection)) as source:
                async for line in source:
                    await lines.put(LogLine(pod=line.pod, task=line.task, text=line.text[:_LONGEST]))
        except ApiError as error:
            end = Refused(error=error.message, code=error.code)
        await lines.put(end)

    reading = asyncio.create_task(read())
    try:
        while True:
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    got = [await lines.get()]
            except TimeoutError:
                yield Batch("")
                continue
            while len(got) < _MOST_LINES and not lines.empty():
                got.append(lines.get_nowait())
            log_lines = [line for line in got if isinstance(line, LogLine)]
            if log_lines:
                yield Batch("lines", log_lines)
            if len(log_lines) < len(got):
                yield Batch("end", got[-1] or {})
                return
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
