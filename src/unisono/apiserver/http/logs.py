"""The ``log`` subresource of pods: which container is meant, whether it has a log, and the stream itself."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

import msgspec
from aiohttp import web

from unisono.api.kinds import PODS
from unisono.api.pod_states import LogOptions
from unisono.api.times import parse_time
from unisono.apiserver.failures import bad_request
from unisono.apiserver.http.exchange import Exchange
from unisono.apiserver.http.query import Query, ResourcePath, flag, integer
from unisono.apiserver.nodes import LogSource, RemotePods
from unisono.apiserver.tables.values import get, items
from unisono.errors import ApiError, Invalid, NotFound, UnisonoError

if TYPE_CHECKING:
    from unisono.apiserver.operations.service import ObjectService

# How long headers wait for the first bytes: an error that comes at once can then still be a proper Status.
_FIRST_BYTES_SECONDS = 0.2
# Of both the agent makes names of folders.
_UID = re.compile(r"[0-9a-zA-Z][0-9a-zA-Z-]{0,62}")
_NAME = re.compile(r"[0-9a-z][0-9a-z-]{0,62}")
_CONTAINER_LISTS = ("containers", "initContainers", "ephemeralContainers")
_STATUS_LISTS = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


class LogHandler:
    """Answers GET of ``pods/<name>/log``.

    Args:
        service: knows the pods.
        source: reads the logs; None when no node agent runs with this server.
        clock: Unix seconds.
        remote: pods that run elsewhere and can be read here; None where there are none.
    """

    def __init__(
        self,
        service: ObjectService,
        source: LogSource | None,
        clock: Callable[[], float],
        remote: RemotePods | None = None,
    ) -> None:
        self._remote = remote
        self._service = service
        self._source = source
        self._clock = clock

    async def log(self, exchange: Exchange, path: ResourcePath) -> web.StreamResponse:
        """Stream the log as plain text.

        Beside Kubernetes' parameters, ``uid`` names the incarnation that is meant, with ``container``: a pod that was
        deleted just now can still be read by clients that have seen it.
        """
        query = exchange.query
        try:
            pod = msgspec.json.decode(await self._service.get(PODS, path.namespace, str(path.name)))
        except NotFound:
            if (gone := self._gone(path, query, {})) is not None:
                return await _relay(exchange, gone)
            if self._remote is None:
                raise
            return await _relay(exchange, self._remote.log(str(path.namespace), str(path.name), query))
        if (gone := self._gone(path, query, pod)) is not None:
            return await _relay(exchange, gone)
        container = choose_container(pod, query.get("container", ""))
        options = self._options(query, str(path.name))
        if not get(pod, "spec", "nodeName"):
            # A pod that is not placed yet has an empty log: clients that follow come back.
            return await exchange.send(204, b"", content_type="text/plain")
        check_has_log(pod, container, previous=options.previous)
        if self._source is None:
            raise ApiError("no node agent serves logs here", code=503, reason="ServiceUnavailable")
        chunks = self._source.open(
            str(path.namespace), str(path.name), pod["metadata"].get("uid", ""), container, options
        )
        return await _relay(exchange, chunks)

    def _gone(self, path: ResourcePath, query: Query, present: dict[str, Any]) -> AsyncIterator[bytes] | None:
        """The log of a pod that the API does not have any more; None where another answer is due."""
        namespace, name, container = str(path.namespace), str(path.name), query.get("container", "")
        uid = query.get("uid", "")
        if not uid or self._source is None or not _UID.fullmatch(uid) or not _NAME.fullmatch(container):
            return None
        if get(present, "metadata", "uid") == uid or not self._source.keeps(namespace, name, uid, container):
            return None
        return self._source.open(namespace, name, uid, container, self._options(query, name))

    def _options(self, query: Query, pod: str) -> LogOptions:
        since = _since(query, pod, self._clock)
        return LogOptions(
            follow=flag(query, "follow"),
            tail_lines=_at_least(query, "tailLines", 0, pod),
            since_seconds=since,
            timestamps=flag(query, "timestamps"),
            previous=flag(query, "previous"),
            limit_bytes=_at_least(query, "limitBytes", 1, pod),
        )


def choose_container(pod: dict[str, Any], wanted: str) -> str:
    """The container whose log is meant.

    Raises:
        ApiError: 400 when the pod has no such container, or several and none is named.
    """
    name = get(pod, "metadata", "name")
    names = [c.get("name") for part in _CONTAINER_LISTS for c in items(pod, "spec", part)]
    if wanted:
        if wanted not in names:
            raise bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    main = [str(c.get("name")) for c in items(pod, "spec", "containers")]
    if len(main) == 1:
        return main[0]
    message = f"a container name must be specified for pod {name}, choose one of: [{' '.join(main)}]"
    first = [str(c.get("name")) for c in items(pod, "spec", "initContainers")]
    if first:
        message += f" or one of the init containers: [{' '.join(first)}]"
    raise bad_request(message)


def check_has_log(pod: dict[str, Any], container: str, *, previous: bool) -> None:
    """Refuse containers that have not run yet, in the kubelet's words.

    Raises:
        ApiError: 400 that says what the container waits for.
    """
    name = get(pod, "metadata", "name")
    subject = f'container "{container}" in pod "{name}"'
    statuses = [s for part in _STATUS_LISTS for s in items(pod, "status", part)]
    status = next((s for s in statuses if s.get("name") == container), None)
    if status is None:
        reason = "ContainerCreating" if get(pod, "status", "phase") == "Pending" else ""
        raise bad_request(f"{subject} is waiting to start: {reason}" if reason else f"{subject} is not available")
    last = get(status, "lastState", "terminated")
    if previous:
        if not last:
            raise bad_request(f"previous terminated {subject} not found")
        return
    state = status.get("state") or {}
    # Some run has ended or is going on: it has left a log, whatever the container waits for now.
    if last or state.get("running") is not None or state.get("terminated") is not None:
        return
    waiting = get(state, "waiting", "reason")
    if waiting == "ErrImagePull":
        raise bad_request(f"{subject} is waiting to start: image can't be pulled")
    if waiting == "ImagePullBackOff":
        raise bad_request(f"{subject} is waiting to start: trying and failing to pull image")
    raise bad_request(
        f"{subject} is waiting to start: {waiting}" if waiting else f"{subject} is waiting to start - no logs yet"
    )


async def _relay(exchange: Exchange, chunks: AsyncIterator[bytes]) -> web.StreamResponse:
    async with aclosing(cast("Any", chunks)):
        first = asyncio.ensure_future(_next(chunks))
        try:
            done, _ = await asyncio.wait({first}, timeout=_FIRST_BYTES_SECONDS)
            if done:
                _raise_as_status(first)
            response = await exchange.stream("text/plain")
            piece = await first
            while piece is not None:
                await exchange.turn_to_send(len(piece))
                await exchange.write(response, piece)
                piece = await _next(chunks)
        except UnisonoError as error:
            if exchange.streaming is None:
                raise
            # The answer has begun: all that is left is to say so in the stream and end it.
            await exchange.write(exchange.streaming, f"\n{error}\n".encode())
            return exchange.streaming
        finally:
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            del first  # a traceback holds this frame, and a future its exception: see App._write
    return response


async def _next(chunks: AsyncIterator[bytes]) -> bytes | None:
    return await anext(chunks, None)


def _raise_as_status(first: asyncio.Future[bytes | None]) -> None:
    try:
        first.result()
    except ApiError:
        raise
    except UnisonoError as error:
        raise ApiError(str(error), code=500, reason="InternalError") from None
    finally:
        del first


def _since(query: Query, pod: str, clock: Callable[[], float]) -> float | None:
    seconds = _at_least(query, "sinceSeconds", 1, pod)
    moment = query.get("sinceTime", "")
    if not moment:
        return seconds
    if seconds is not None:
        raise _invalid(pod, "sinceSeconds", "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified")
    try:
        return max(0.0, clock() - parse_time(moment))
    except ValueError:
        raise bad_request(f'parsing time "{moment}" as RFC 3339: cannot parse (parameter sinceTime)') from None


def _at_least(query: Query, name: str, least: int, pod: str) -> int | None:
    value = integer(query, name)
    if value is not None and value < least:
        bound = "0" if least == 0 else f"{least - 1}"
        relation = "greater than or equal to" if least == 0 else "greater than"
        raise _invalid(pod, name, f"Invalid value: {value}: must be {relation} {bound}")
    return value


def _invalid(pod: str, field: str, detail: str) -> Invalid:
    reason = "FieldValueForbidden" if detail.startswith("Forbidden") else "FieldValueInvalid"
    return Invalid(
        f'PodLogOptions "{pod}" is invalid: {field}: {detail}',
        details={
            "name": pod,
            "kind": "PodLogOptions",
            "causes": [{"reason": reason, "message": detail, "field": field}],
        },
    )
