"""The loop behind the blocking client: threads that wait when it closes, clients that nobody closes."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from unisono.kube.kubeconfig import ClusterConfig
from unisono.kube.transport import Transport
from unisono.sdk.clients.client import Portal

PATIENCE = 60.0


def test_an_iterator_that_the_garbage_collector_ends_in_the_loops_thread_is_closed() -> None:
    """The collector runs in whichever thread makes objects; waiting for the loop within it would never end."""
    portal = Portal()
    closed = threading.Event()

    async def numbers() -> AsyncGenerator[int, None]:
        try:
            yield 1
            yield 2
        finally:
            closed.set()

    async def collect(iterator: Generator[int, None, None]) -> None:
        iterator.close()

    iterator = portal.iterate(numbers())
    assert next(iterator) == 1
    portal.start(collect(iterator)).result(timeout=PATIENCE)
    assert closed.wait(timeout=PATIENCE)
    portal.close()


def test_an_iterator_that_the_garbage_collector_ends_within_a_call_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs where objects are made, and so within the making of a call as well."""
    portal = Portal()
    closed, told = threading.Event(), threading.Event()

    async def numbers() -> AsyncGenerator[int, None]:
        try:
            yield 1
            yield 2
        finally:
            closed.set()

    iterator = portal.iterate(numbers())
    assert next(iterator) == 1
    hand_over = asyncio.run_coroutine_threadsafe

    def forgetful(work: Any, loop: asyncio.AbstractEventLoop) -> Any:
        if not told.is_set():
            told.set()
            iterator.close()
        return hand_over(work, loop)

    async def one() -> int:
        return 1

    with monkeypatch.context() as patched:
        patched.setattr("asyncio.run_coroutine_threadsafe", forgetful)
        answers: list[int] = []
        asking = threading.Thread(target=lambda: answers.append(portal.run(one())), daemon=True)
        asking.start()
        asking.join(PATIENCE)
    assert answers == [1]
    assert closed.wait(PATIENCE)
    portal.close()


async def forever(begun: threading.Event) -> None:
    begun.set()
    await asyncio.Event().wait()


async def never(begun: threading.Event) -> AsyncGenerator[int, None]:
    await forever(begun)
    yield 1


@pytest.mark.parametrize("call", ["run", "iterate"])
def test_who_waits_in_another_thread_is_told_that_the_client_was_closed(call: str) -> None:
    portal, begun = Portal(), threading.Event()
    told: list[BaseException] = []

    def wait() -> None:
        try:
            if call == "run":
                portal.run(forever(begun))
            else:
                next(portal.iterate(never(begun)))
        except BaseException as error:
            told.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert begun.wait(PATIENCE)
    portal.close()
    waiting.join(PATIENCE)
    assert [type(error) for error in told] == [RuntimeError]
    assert "was closed while this call waited" in str(told[0])


def test_a_call_beside_the_end_is_answered_or_refused_and_never_left_waiting() -> None:
    async def one() -> int:
        return 1

    for _ in range(20):
        portal, answers = Portal(), list[int | str]()

        def ask(portal: Portal = portal, answers: list[int | str] = answers) -> None:
            try:
                while True:
                    answers.append(portal.run(one()))
            except RuntimeError as error:
                answers.append(str(error))

        asking = [threading.Thread(target=ask, daemon=True) for _ in range(3)]
        for thread in asking:
            thread.start()
        portal.close()
        for thread in asking:
            thread.join(PATIENCE)
        assert not any(thread.is_alive() for thread in asking)
        refusals = [answer for answer in answers if answer != 1]
        assert len(refusals) == 3
        assert all("The client" in str(refusal) for refusal in refusals)


def test_a_portal_that_nobody_closed_says_farewell_and_ends_its_thread() -> None:
    said: list[str] = []

    async def farewell() -> None:
        said.append(threading.current_thread().name)

    before = set(threading.enumerate())
    portal = Portal(farewell)
    thread = (set(threading.enumerate()) - before).pop()
    del portal
    gc.collect()
    assert said == [thread.name]
    assert not thread.is_alive()


def test_a_portal_that_is_forgotten_in_its_own_thread_does_not_wait_for_itself() -> None:
    dropped, ended = threading.Event(), threading.Event()

    async def farewell() -> None:
        ended.set()

    async def forget(only: list[Portal]) -> None:
        while not dropped.is_set():
            await asyncio.sleep(0)
        only.clear()

    only = [Portal(farewell)]
    only[0].start(forget(only))
    dropped.set()
    assert ended.wait(PATIENCE)


def test_streams_that_read_from_streams_close_each_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    closed: list[str] = []

    async def lines() -> AsyncGenerator[int, None]:
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(0)
            closed.append("lines")

    async def named() -> AsyncGenerator[int, None]:
        try:
            async with aclosing(lines()) as source:
                async for line in source:
                    yield line
        finally:
            closed.append("named")

    portal = Portal()
    held = portal.iterate(named())
    assert next(held) == 1
    portal.close()
    assert closed == ["lines", "named"]
    assert not caplog.records
    with pytest.raises(RuntimeError, match="client is closed"):
        next(held)


@asynccontextmanager
async def endless_server() -> AsyncIterator[str]:
    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"line\n")
        await asyncio.Event().wait()
        return response

    app = web.Application()
    app.router.add_get("/", handle)
    async with TestServer(app) as server:
        yield str(server.make_url("")).rstrip("/")


async def test_a_client_is_closed_when_the_connections_of_its_streams_are() -> None:
    """A loop that ends right afterwards, as a portal's does, must not leave any open: Python warns, and this fails."""
    async with endless_server() as address:

        async def follow() -> None:
            transport = Transport(ClusterConfig(server=address))
            for _ in range(3):
                async with aclosing(transport.stream("/")) as source:
                    assert await anext(source) == b"line\n"
            await transport.close()

        await asyncio.to_thread(asyncio.run, follow())
        gc.collect()
