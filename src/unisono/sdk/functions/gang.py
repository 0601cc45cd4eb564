"""Functions as jobs: ``@gang(workers=4)`` makes a gang of a function, ``map`` spreads items over pods."""

from __future__ import annotations

import atexit
import functools
import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Generic, ParamSpec, TypeVar

from unisono.errors import ApiError, UnisonoError
from unisono.sdk.clients.aio import AsyncClient
from unisono.sdk.clients.client import Client
from unisono.sdk.clients.program_end import end_with_program
from unisono.sdk.errors import CannotShip
from unisono.sdk.follow.events import telling
from unisono.sdk.functions.launch import GangOptions, Launched, collect, forget, launch, shares
from unisono.sdk.functions.pod_entrypoint import INSIDE

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

MOST_PODS = 64

_default: list[Client] = []
_lock = threading.Lock()


def default_client() -> Client:
    """The client of functions that name none: made at the first use, closed when the program ends."""
    with _lock:
        if not _default:
            client = Client()
            atexit.register(client.close)
            _default.append(client)
        return _default[0]


def rank() -> int:
    """Number of this worker in its gang, from 0; 0 outside of one."""
    return int(os.environ.get("RANK", "0"))


def world_size() -> int:
    """Number of workers in this gang; 1 outside of one."""
    return int(os.environ.get("WORLD_SIZE", "1"))


class GangFunction(Generic[P, R]):
    """A function that runs in as many pods as its gang has; calling it answers the list of results by rank.

    Attributes:
        function: the plain function, for calls in this process.
        options: how the pods look.
    """

    def __init__(self, function: Callable[P, R], options: GangOptions, client: Client | None) -> None:
        functools.update_wrapper(self, function)
        self.function, self.options, self._client = function, options, client

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> list[R]:
        """Run the gang and wait for it.

        Raises:
            RemoteError: the function raised in a pod.
            JobFailed: the job ended otherwise without success.
            WaitTimeout: it took longer than ``timeout``.
            CannotShip: the function, an argument or a result cannot travel.
        """
        _outside(self.function)
        client = self._client or default_client()
        try:
            return _finish(client, client.run(launch(client.aio, self.function, (args, kwargs), self.options)))
        except UnisonoError as error:
            # The caller's frames say where the call stands, and the note what happened in the pod: ours say nothing.
            raise error.with_traceback(None) from None

    async def aio(self, client: AsyncClient, *args: P.args, **kwargs: P.kwargs) -> list[R]:
        """The same with an asynchronous client; nothing is printed."""
        _outside(self.function)
        launched = await launch(client, self.function, (args, kwargs), self.options)
        values = await collect(client, launched)
        await forget(client, launched)
        return values


def gang(
    *, workers: int = 1, client: Client | None = None, **options: Any
) -> Callable[[Callable[P, R]], GangFunction[P, R]]:
    """Decorator: calls of the function run in ``workers`` pods that start together or not at all.

    The pods know their place by ``RANK``, ``WORLD_SIZE``, ``MASTER_ADDR`` and ``MASTER_PORT``, which are the names that
    ``torch.distributed`` reads.

    Args:
        workers: number of pods.
        client: where; None for the default client.
        options: further fields of `GangOptions`, such as ``cpu``, ``gpus``, ``queue`` or ``timeout``.
    """
    chosen = _options(workers, options)
    return lambda function: GangFunction(function, chosen, client)


def map(
    function: Callable[[T], R],
    items: Iterable[T],
    *,
    workers: int | None = None,
    client: Client | None = None,
    **options: Any,
) -> list[R]:
    """Call ``function`` with every item in pods of their own; the results, in the order of the items.

    Args:
        function: of one argument.
        items: the arguments.
        workers: number of pods, which share the items; None for one per item, up to 64. They start as room is found.
        client: where; None for the default client.
        options: further fields of `GangOptions`.

    Raises:
        RemoteError: a call raised; the job is stopped then.
        CannotShip: the function, an item or a result cannot travel.
    """
    _outside(function)
    given = list(items)
    if not given:
        return []
    size = min(len(given), workers if workers is not None else MOST_PODS)
    plain = function.function if isinstance(function, GangFunction) else function
    chosen = _options(size, {"echo": False, **options})
    where = client or default_client()
    try:
        launched = where.run(launch(where.aio, plain, given, chosen, mode="map"))
        return shares(_finish(where, launched), len(given))
    except UnisonoError as error:
        raise error.with_traceback(None) from None


def _finish(client: Client, launched: Launched) -> list[Any]:
    """Show what the pods print, and answer the results; Ctrl-C deletes the job."""
    try:
        end_with_program(client, launched.view)
        results = client.start(_collect(client, launched))
        if launched.options.echo:
            for line in client.logs(launched.view, follow=True):
                if not launched.is_frame(line.text):
                    print(f"[{line.pod.rpartition('-')[2]}] {line.text}", flush=True)
        values = results.result()
    except KeyboardInterrupt:
        with suppress(ApiError):
            client.delete(launched.view)
        raise
    client.run(forget(client.aio, launched))
    return values


async def _collect(client: Client, launched: Launched) -> list[Any]:
    async with telling(client.shows) as tell:
        return await collect(client.aio, launched, tell=tell)


def _options(workers: int, options: dict[str, Any]) -> GangOptions:
    if workers < 1:
        raise CannotShip(f"workers must be 1 or more, and not {workers}.")
    try:
        return GangOptions(workers=workers, **options)
    except TypeError as error:
        raise CannotShip(f"There is no such option: {error}.") from None


def _outside(function: Any) -> None:
    """Refuse a call from within a pod: it would make gangs without end."""
    if os.environ.get(INSIDE):
        name = getattr(function, "__name__", "the function")
        raise CannotShip(f'{name} was called in a pod of a gang: call it below if __name__ == "__main__".')
