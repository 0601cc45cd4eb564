"""What would happen if: the scheduler's engine on a copy of what a viewer sees, in a process of its own."""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import msgspec

from unisono.api.verdict import job_name
from unisono.api.yaml import load_all
from unisono.dashboard.views.wire import ConfigurationView, Futures, Moved
from unisono.engine.plugins.registry import is_code
from unisono.errors import ApiError, ConfigError, UnisonoError
from unisono.simulator.forecast.live import list_objects

if TYPE_CHECKING:
    from unisono.kube.http import HttpClient
    from unisono.simulator.forecast.live import LiveObjects

_FUTURES = 9
"""Of fewer the first and the last are no interval of 80 %."""
_UNTIL_SECONDS = 4 * 3600.0
_PROCESSOR_SECONDS = 20.0
"""Time that an answer may take of a processor; the fast model's comes before."""
_LONGEST_SECONDS = 300.0
"""Where other work leaves the processor to nobody's questions."""
_MOST_SHOWN = 200
_MOST_BYTES = 4 << 30
_LOOK_SECONDS = 0.05


class CannotTell(UnisonoError):
    """The question has no answer; says why."""


class Turns:
    """Each question costs a processor for seconds, and a copy of the cluster: one at a time, of few that wait.

    Args:
        most: questions that may be open.

    """

    def __init__(self, most: int = 8) -> None:
        self._most = most
        self._open: set[str] = set()
        self._turn = asyncio.Semaphore(1)

    @asynccontextmanager
    async def taken(self, user: str) -> AsyncIterator[None]:
        """Wait for the turn of a user's question.

        Raises:
            ApiError: 429: this user asks already, or too many others do.

        """
        if user in self._open:
            raise _busy("one question at a time: your last one is not answered yet")
        if len(self._open) >= self._most:
            raise _busy("too many others ask: try again in a minute")
        self._open.add(user)
        try:
            async with self._turn:
                yield
        finally:
            self._open.discard(user)


def _busy(message: str) -> ApiError:
    return ApiError(message, code=429, reason="TooManyRequests")


async def futures(client: HttpClient, text: str, configuration: ConfigurationView) -> Futures:
    """When waiting jobs start, as the cluster is and with changes.

    Args:
        client: with the viewer's credentials: what the viewer may not list, nothing can be said about.
        text: changes as ``unisono whatif`` takes them; empty for none.
        configuration: the scheduler's, with which both sides begin.

    Raises:
        ConfigError: the text is no YAML.
        CannotTell: it names what does not exist, or the answer takes too long.
        ApiError: the viewer may not see the whole cluster.

    """
    documents = await asyncio.to_thread(_documents, text)
    told = await _elsewhere(await list_objects(client), documents, configuration)
    if isinstance(told, str):
        raise CannotTell(told)
    return told


def _documents(text: str) -> list[tuple[dict[str, Any], str]]:
    found = []
    for document in load_all(text, "changes"):
        if not isinstance(document.value, dict):
            raise ConfigError("give objects, nodes, or a scheduler configuration", file="changes", line=document.line)
        if _names_code(document.value):
            raise CannotTell(
                "Plug-ins of modules (module:Class) are code, and are not taken from this page: ask 'unisono whatif'."
            )
        found.append((document.value, f"changes:{document.line}"))
    return found


def _names_code(value: dict[str, Any]) -> bool:
    """Whether a configuration names a plug-in of a module, which would be imported into the dashboard's process."""
    return "kind" not in value and any(is_code(text.strip()) for text in _names(value))


def _names(value: Any) -> Iterator[str]:
    """Texts that may be names: in lists, and of keys ``name``."""
    todo, seen = [value], set[int]()
    while todo:
        at = todo.pop()
        if not isinstance(at, dict | list) or id(at) in seen:
            continue
        seen.add(id(at))
        within = at.items() if isinstance(at, dict) else (("name", each) for each in at)
        for key, each in within:
            if isinstance(each, str) and str(key).lower() == "name":
                yield each
            todo.append(each)


async def _elsewhere(
    objects: LiveObjects, documents: Sequence[tuple[dict[str, Any], str]], configuration: ConfigurationView
) -> Futures | str:
    """The answer of another process, which is ended where it takes too long."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(there, objects, documents, configuration, time.time()), daemon=True)
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, process.start)
    there.close()
    try:
        async with asyncio.timeout(_LONGEST_SECONDS):
            while not here.poll():  # noqa: ASYNC110 - another process writes
                await asyncio.sleep(_LOOK_SECONDS)
            answer: bytes = here.recv_bytes()
    except (TimeoutError, EOFError):
        return "No answer came within five minutes, as others use this processor: ask 'unisono whatif'."
    finally:
        process.kill()
        await loop.run_in_executor(None, process.join)
        here.close()
    told = msgspec.json.decode(answer)
    return str(told["error"]) if "error" in told else msgspec.convert(told, Futures)


def _work(
    answer: Connection,
    objects: LiveObjects,
    documents: Sequence[tuple[dict[str, Any], str]],
    configuration: ConfigurationView,
    now: float,
) -> None:
    """In the other process."""
    # Changes may ask for any number of nodes: what is too large is this question's fault alone.
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
    try:
        told: Any = ask(objects, documents, configuration, now)
    except UnisonoError as error:
        told = {"error": str(error)}
    except MemoryError:
        told = {"error": f"This takes more than {_MOST_BYTES >> 30} GiB: ask for less."}
    answer.send_bytes(msgspec.json.encode(told))


def ask(
    objects: LiveObjects,
    documents: Sequence[tuple[dict[str, Any], str]],
    configuration: ConfigurationView,
    now: float,
) -> Futures:
    """Simulate both sides.

    Raises:
        UnisonoError: a document is no change.

    """
    from unisono.engine.config_file.reader import default_config, load_config
    from unisono.simulator.forecast.forecast import Budget, forecast
    from unisono.simulator.forecast.whatif import apply_changes, what_if

    name = configuration.name
    try:
        config = load_config(configuration.text, name)
    except ConfigError as error:
        config, name = default_config(), f"the default configuration, since the one in force is refused: {error}"
    budget = Budget.of(_PROCESSOR_SECONDS, time.process_time)
    common: dict[str, Any] = {"futures": _FUTURES, "until": _UNTIL_SECONDS, "budget": budget}
    if not documents:
        said = forecast(objects, config, now, **common, whole=False)
        moved = [_moved(each.key, each, each) for each in said.starts[:_MOST_SHOWN]]
        return Futures([], name, len(said.runs), _UNTIL_SECONDS, moved, [], said.source)
    changed = apply_changes(objects, documents)
    found = what_if(objects, config, now, changed, **common)
    return Futures(
        told=list(found.told),
        configuration=name,
        futures=found.futures,
        until=found.until,
        moved=[_moved(each.key, each.before, each.after) for each in found.moved[:_MOST_SHOWN]],
        evicted=list(found.evicted[:_MOST_SHOWN]),
        source=found.source,
    )


def _moved(key: str, before: Any, after: Any) -> Moved:
    def median(start: Any) -> float:
        return -1.0 if start is None or start.median is None else float(start.median)

    known = after if after is not None else before
    return Moved(
        job=key,
        name=job_name(key),
        queue=known.queue,
        before=median(before),
        after=median(after),
        low=-1.0 if after is None or after.low is None else after.low,
        high=-1.0 if after is None or after.high is None else after.high,
        known=known.known,
    )
