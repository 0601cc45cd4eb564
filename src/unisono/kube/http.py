"""``kube.Client`` over HTTP(S): any Kubernetes API server."""

from __future__ import annotations

import re
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Mapping,
    MutableSequence,
    Sequence,
)
from contextlib import aclosing
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from unisono.api.base import Object, ObjectMeta
from unisono.api.kind import Kind
from unisono.errors import NotFound, Unavailable, from_status
from unisono.kube.client import EventType, Listing, PatchType, Propagation, WatchEvent
from unisono.kube.kubeconfig import ClusterConfig
from unisono.kube.pace import WritePace
from unisono.kube.transport import JSON, Answer, Params, Transport, error_of
from unisono.lazy_logs import LazyLogger

if TYPE_CHECKING:
    import aiohttp

# Answers of an API server as objects: pages of lists, events of watches, and objects that break their schema.

T = TypeVar("T", bound=Object)
D = TypeVar("D")
R = TypeVar("R")

_log = LazyLogger(__name__)

# No object is as large by far: who sends a longer line of a watch means harm.
_LONGEST_LINE = 64 * 1024 * 1024
CUT: Final = b'"unisono.io/nested-too-deep"'
"""What stands in the place of a value that was cut out."""
DEEPEST: Final = 200
"""Levels that are left. Objects of Kubernetes' own kinds have about 20."""

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str | None = None
    continue_: str | None = msgspec.field(default=None, name="continue")


class Page(msgspec.Struct, Generic[D]):
    """A part of a list."""

    metadata: _ListMeta
    items: list[D] | None = None


class RawEvent(msgspec.Struct):
    """An event of a watch, whose object is decoded as its kind says."""

    type: str
    object: msgspec.Raw


class BookmarkObject(msgspec.Struct):
    """As much of an object as a bookmark has."""

    metadata: ObjectMeta


class Decoding:
    """Decodes what one server sends.

    Args:
        server: its address, for messages.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._decoders: dict[Any, msgspec.json.Decoder[Any]] = {}

    def _decoder(self, struct: type[D]) -> msgspec.json.Decoder[D]:
        decoder = self._decoders.get(struct)
        if decoder is None:
            decoder = self._decoders[struct] = msgspec.json.Decoder(struct)
        return decoder

    def whole(self, struct: type[D], data: bytes | msgspec.Raw) -> D:
        """One value.

        Raises:
            Unavailable: it is no JSON, or not such a value.
        """
        try:
            try:
                return self._decoder(struct).decode(data)
            except RecursionError:
                return self._decoder(struct).decode(cut_deep(bytes(data)))
        except msgspec.DecodeError as error:
            raise Unavailable(f"The API server at {self._server} sent what is not understood: {error}.") from error

    def page(self, kind: Kind[T], data: bytes, unread: MutableSequence[tuple[T, str]]) -> Page[T]:
        """A part of a list; objects that are not as their kind says go to ``unread``, with what is wrong.

        Raises:
            Unavailable: it is no list.
        """
        struct = kind.struct
        try:
            return self._decoder(Page[struct]).decode(data)  # type: ignore[valid-type]
        except (msgspec.ValidationError, RecursionError):
            # One object is not what its kind says, or nested too deep; the others must not suffer for it.
            raw = self.whole(Page[msgspec.Raw], data)
            items = []
            for value in raw.items or ():
                obj, problem = self.one(kind, value)
                if not problem:
                    items.append(obj)
                elif obj.metadata.name:
                    unread.append((obj, problem))
            return Page(raw.metadata, items)
        except msgspec.DecodeError as error:
            raise Unavailable(f"The API server at {self._server} sent what is not JSON: {error}.") from error

    def one(self, kind: Kind[T], data: msgspec.Raw) -> tuple[T, str]:
        """The object, or what of it is as its kind says and what is not."""
        try:
            obj, problem = self._decoder(kind.struct).decode(data), ""
            if CUT in bytes(data):
                problem = f"it is nested more than {DEEPEST} levels deep"
        except msgspec.ValidationError as error:
            from unisono.api.decode import decode

            obj, problem = decode(kind, msgspec.json.decode(data)).obj, str(error)
        if problem:
            meta = obj.metadata
            _log.warning(
                "object.undecodable", resource=kind.resource, namespace=meta.namespace, name=meta.name, error=problem
            )
        return obj, problem


async def split_lines(chunks: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    """Lines of a byte stream without their newline; a last line that the connection cut off is dropped.

    Raises:
        Unavailable: a line has no end for longer than any object is.
    """
    parts: list[bytes] = []
    size = 0
    async for chunk in chunks:
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            parts.append(chunk[start:end])
            line = b"".join(parts)
            parts.clear()
            size = 0
            start = end + 1
            if line.strip():
                yield line
        if start < len(chunk):
            parts.append(chunk[start:])
            size += len(chunk) - start
            if size > _LONGEST_LINE:
                raise Unavailable(f"the server sends a line of more than {_LONGEST_LINE} bytes")


def cut_deep(data: bytes, deepest: int = DEEPEST) -> bytes:
    """The JSON text with every array and object below ``deepest`` levels replaced by `CUT`; takes linear time.

    A Kubernetes API server takes 10,000 levels where a field may hold any JSON, such as the parameters of a
    ResourceClaim; a decoder that recurses reads fewer than 1,000.
    """
    parts: list[bytes] = []
    depth = begun = kept = 0
    for match in _TOKEN.finditer(data):
        token = data[match.start()]
        if token in b"[{":
            depth += 1
            if depth == deepest + 1:
                begun = match.start()
        elif token in b"]}":
            if depth == deepest + 1:
                parts += (data[kept:begun], CUT)
                kept = match.end()
            depth -= 1
    return b"".join((*parts, data[kept:]))


_PATCH_TYPES: dict[PatchType, str] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
# As client-go: small enough for the server's memory, large enough that 100,000 objects take 200 requests.
_PAGE = 500
# There are many of these. A third of their size says who set which field, which is not read in lists and watches.
_LEAN = frozenset({("", "pods"), ("", "nodes")})
# How long a watch may outlive the time-out that the server was asked for before it counts as broken.
_WATCH_GRACE_SECONDS = 30.0


class _ServedKind(msgspec.Struct):
    name: str


class _Served(msgspec.Struct):
    """What discovery says of one version of a group."""

    resources: list[_ServedKind] = []


class HttpClient:
    """Typed access to the API server of a ``ClusterConfig``.

    ``taken`` may put another object in the place of each that a list or a watch has read. Of a list it does so page by
    page: what it does not keep of one page is gone before the next one comes.
    """

    streams_lists = True
    """A watch from no resourceVersion begins with all objects, and a bookmark that is annotated as their end."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        transport: Transport | None = None,
        taken: Callable[[Any], Any] | None = None,
        most_listed: int | None = None,
    ) -> None:
        """``most_listed``: a list of more objects is given up, as one that never ends would be."""
        self.transport = transport or Transport(config)
        self._most_listed = most_listed
        self._taken = taken
        self._decoding = Decoding(self.transport.config.server)

    @property
    def config(self) -> ClusterConfig:
        """Where the client is connected to."""
        return self.transport.config

    @property
    def pace(self) -> WritePace:
        """How fast writes may go; shared by all clients of one transport."""
        return self.transport.pace

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        params: Params | None = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Answer:
        """A raw call: status, headers and body, whatever the status; see ``Transport.request``."""
        return await self.transport.request(
            method, path, body=body, params=params, content_type=content_type, accept=accept
        )

    def stream(self, path: str, params: Params | None = None, *, accept: str = JSON) -> AsyncGenerator[bytes, None]:
        """A raw GET as it comes (logs, Table watches); see ``Transport.stream``."""
        return self.transport.stream(path, params, accept=accept)

    async def web_socket(
        self, path: str, params: Sequence[tuple[str, str]], protocols: Sequence[str]
    ) -> aiohttp.ClientWebSocketResponse:
        """See `Transport.web_socket`."""
        return await self.transport.web_socket(path, params, protocols)

    async def get(self, kind: Kind[T], name: str, namespace: str | None = None) -> T:
        """Read one object."""
        data = await self._found(kind, lambda spoken: self._call("GET", spoken.path(namespace, name)))
        return self._decoding.whole(kind.struct, data)

    async def list(
        self, kind: Kind[T], namespace: str | None = None, *, label_selector: str = "", field_selector: str = ""
    ) -> Listing[T]:
        """Read all objects, page by page; one that cannot be decoded stands in ``unread``, without what is wrong.

        Pods and nodes come without ``metadata.managedFields``, also in watches.
        """
        params = {"limit": str(_PAGE), **_selectors(label_selector, field_selector)}
        items: list[T] = []
        unread: list[tuple[T, str]] = []
        while True:
            data = await self._found(kind, lambda spoken: self._call("GET", spoken.path(namespace), params=params))
            page = self._decoding.page(kind, data, unread)
            page_items = page.items or []
            if (kind.group, kind.plural) in _LEAN:
                for item in page_items:
                    item.metadata.managed_fields = None
            if (spoken := self._spoken(kind)) is not kind:  # of which items of a list say nothing
                for item in page_items:
                    item.api_version = item.api_version or spoken.api_version
            items.extend(page_items if self._taken is None else map(self._taken, page_items))
            if self._most_listed is not None and len(items) + len(unread) > self._most_listed:
                raise Unavailable(f"the list of {kind.resource} has more than {self._most_listed} objects")
            if not page.metadata.continue_:
                return Listing(items, page.metadata.resource_version or "", unread)
            if self._most_listed is not None and not page_items:
                raise Unavailable(f"a page of the list of {kind.resource} is empty, and says that more follow")
            params["continue"] = page.metadata.continue_

    async def watch(
        self,
        kind: Kind[T],
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: float | None = None,
    ) -> AsyncIterator[WatchEvent[T]]:
        """Changes after ``resource_version``; where it is empty, all objects and then changes. Lines of any length."""
        params = {"watch": "true", "allowWatchBookmarks": "true", **_selectors(label_selector, field_selector)}
        if resource_version:
            params["resourceVersion"] = resource_version
        else:
            params |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        limit = None
        if timeout_seconds is not None:
            params["timeoutSeconds"] = str(max(1, int(timeout_seconds)))
            limit = timeout_seconds + _WATCH_GRACE_SECONDS

        async def begun(spoken: Kind[T]) -> tuple[bytes | None, AsyncGenerator[bytes, None]]:
            lines = self._lines(spoken.path(namespace), params, limit)
            return await anext(lines, None), lines

        line, lines = await self._found(kind, begun)
        # Each generator is closed by the one that reads it: a watch that is left must not keep its connection.
        async with aclosing(lines):
            while line is not None:
                event = self._decoding.whole(RawEvent, line)
                if event.type == "ERROR":
                    raise from_status(msgspec.json.decode(event.object, type=dict[str, Any]))
                yield self._event(kind, event)
                line = await anext(lines, None)

    async def _lines(self, path: str, params: Mapping[str, str], limit: float | None) -> AsyncGenerator[bytes, None]:
        """What a stream says, line by line."""
        async with (
            aclosing(self.transport.stream(path, params, timeout=limit)) as chunks,
            aclosing(split_lines(chunks)) as lines,
        ):
            async for line in lines:
                yield line

    async def create(self, kind: Kind[T], obj: T, *, dry_run: bool = False) -> T:
        """Create; without a namespace the one of the configuration is meant."""
        namespace, kind = obj.metadata.namespace or self.config.namespace, self._spoken(kind)
        value = msgspec.structs.replace(obj, api_version=kind.api_version, kind=kind.kind)
        params = {"dryRun": "All"} if dry_run else None
        data = await self._call("POST", kind.path(namespace), body=msgspec.json.encode(value), params=params)
        return self._decoding.whole(kind.struct, data)

    async def patch(
        self,
        kind: Kind[T],
        name: str,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        patch_type: PatchType = "merge",
    ) -> T:
        """Patch; a list of operations needs ``patch_type="json"``; ``apply`` takes ownership by force."""
        params = {"fieldManager": "unisono", "force": "true"} if patch_type == "apply" else None
        data = await self._call(
            "PATCH",
            self._spoken(kind).path(namespace, name, subresource),
            body=msgspec.json.encode(patch),
            params=params,
            content_type=_PATCH_TYPES[patch_type],
        )
        return self._decoding.whole(kind.struct, data)

    async def delete(
        self,
        kind: Kind[T],
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        grace_seconds: int | None = None,
        propagation: Propagation | None = None,
    ) -> None:
        """Delete; with ``uid`` only that incarnation."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if propagation is not None:
            options["propagationPolicy"] = propagation
        await self._call("DELETE", self._spoken(kind).path(namespace, name), body=msgspec.json.encode(options))

    async def bind(
        self,
        namespace: str,
        pod: str,
        node: str,
        *,
        uid: str | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """POST the pod's ``binding``."""
        meta: dict[str, Any] = {"name": pod, "namespace": namespace}
        if uid is not None:
            meta["uid"] = uid
        if annotations:
            meta["annotations"] = dict(annotations)
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": meta,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/binding"
        await self._call("POST", path, body=msgspec.json.encode(body))

    async def evict(
        self, namespace: str, pod: str, *, uid: str | None = None, grace_seconds: int | None = None
    ) -> None:
        """POST the pod's ``eviction``; a spent budget is answered at once, not waited for."""
        options: dict[str, Any] = {}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
            "deleteOptions": options,
        }
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction"
        await self._call("POST", path, body=msgspec.json.encode(body), max_wait=0.0)

    async def close(self) -> None:
        """Close all connections."""
        await self.transport.close()

    async def _call(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        params: Params | None = None,
        content_type: str = JSON,
        max_wait: float | None = None,
    ) -> bytes:
        status, headers, data = await self.transport.request(
            method, path, body=body, params=params, content_type=content_type, max_wait=max_wait
        )
        if status >= 300:
            raise error_of(status, headers, data)
        return data

    def _spoken(self, kind: Kind[T]) -> Kind[T]:
        """The kind in the version that the server was found to serve; its own one where that is not known."""
        version = self.transport.versions.get((kind.group, kind.plural)) if kind.alias_versions else None
        return kind if version is None else replace(kind, version=version)

    async def _found(self, kind: Kind[T], ask: Callable[[Kind[T]], Awaitable[R]]) -> R:
        """What is asked of a kind; where nothing is found, once more in the version that the server serves.

        The server is asked about that only of kinds with several versions, and then speaks it from now on.
        """
        tried = self._spoken(kind)
        try:
            return await ask(tried)
        except NotFound:
            version = await self._served_version(kind)
            if version in (None, tried.version):
                raise
            self.transport.versions[kind.group, kind.plural] = version
            return await ask(self._spoken(kind))

    async def _served_version(self, kind: Kind[Any]) -> str | None:
        """The first of a kind's versions that the server serves; None where it is none, or the kind has only one."""
        for version in (kind.version, *kind.alias_versions) if kind.alias_versions else ():
            status, _, data = await self.transport.request("GET", f"/apis/{kind.group}/{version}")
            if status == HTTPStatus.OK and any(
                one.name == kind.plural for one in self._decoding.whole(_Served, data).resources
            ):
                return version
        return None

    def _event(self, kind: Kind[T], event: RawEvent) -> WatchEvent[T]:
        event_type: EventType = event.type  # type: ignore[assignment]
        if event_type == "BOOKMARK":
            # The rest of a bookmark is an empty object, which need not be what the kind says.
            return WatchEvent(
                event_type, kind.struct(metadata=self._decoding.whole(BookmarkObject, event.object).metadata)
            )
        obj, problem = self._decoding.one(kind, event.object)
        if (kind.group, kind.plural) in _LEAN:
            obj.metadata.managed_fields = None
        if self._taken is not None and event_type in ("ADDED", "MODIFIED") and not problem:
            obj = self._taken(obj)
        return WatchEvent(event_type, obj, problem)


def _selectors(labels: str, fields: str) -> dict[str, str]:
    params = {}
    if labels:
        params["labelSelector"] = labels
    if fields:
        params["fieldSelector"] = fields
    return params
