"""How many requests a client has under way at a server that says that it is too busy."""

from __future__ import annotations

import asyncio

from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from support.virtual_clock import VirtualClock
from unisono.kube.kubeconfig import ClusterConfig
from unisono.kube.listening import AppListener
from unisono.kube.pace import Flow
from unisono.kube.transport import Transport


class Requests:
    """Requests of which a test says when they end."""

    def __init__(self, flow: Flow) -> None:
        self.flow, self.under_way, self.most = flow, 0, 0
        self.end = asyncio.Event()

    async def one(self) -> None:
        async with self.flow.slot():
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            await self.end.wait()
            self.under_way -= 1


async def settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def test_no_more_than_the_bound_are_under_way_and_all_get_their_turn() -> None:
    requests = Requests(Flow(VirtualClock(), 8))
    tasks = [asyncio.create_task(requests.one()) for _ in range(40)]
    await settle()
    assert requests.under_way == 8
    requests.end.set()
    await asyncio.gather(*tasks)
    assert requests.most == 8


async def test_a_refusal_halves_what_is_under_way_once_per_moment() -> None:
    clock = VirtualClock()
    flow = Flow(clock, 256)
    requests = Requests(flow)
    tasks = [asyncio.create_task(requests.one()) for _ in range(40)]
    await settle()
    for _ in range(30):
        flow.refused()
    assert flow.limit == 20, "40 were under way, and 30 refusals tell of one moment"
    await clock.advance(1.0)
    flow.refused()
    assert flow.limit == 10
    requests.end.set()
    await asyncio.gather(*tasks)


async def test_who_gives_up_waiting_or_at_its_turn_takes_no_place_along() -> None:
    requests = Requests(Flow(VirtualClock(), 4))
    tasks = [asyncio.create_task(requests.one()) for _ in range(8)]
    await settle()
    for task in (tasks[5], tasks[0], tasks[4]):
        task.cancel()
    await asyncio.gather(tasks[0], tasks[4], tasks[5], return_exceptions=True)
    requests.under_way -= 1
    await settle()
    assert requests.under_way == 4
    requests.end.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    async with asyncio.timeout(60):
        await asyncio.gather(*(requests.one() for _ in range(4)))


@given(st.lists(st.booleans(), max_size=100), st.integers(1, 30))
def test_the_bound_stays_between_its_ends_and_recovers(answers: list[bool], most: int) -> None:
    clock = VirtualClock()
    flow = Flow(clock, most)
    for good in answers:
        (flow.answered if good else flow.refused)()
        assert 4 <= flow.limit <= max(most, 4)
    for _ in range(most * most):
        flow.answered()
    assert flow.limit == max(most, 4)


async def test_a_client_of_a_busy_server_slows_down_except_for_leases_and_evictions_do_not_count() -> None:
    busy = {"/api/v1/pods": 3, "/api/v1/namespaces/a/pods/b/eviction": 1}

    async def answer(request: web.Request) -> web.Response:
        if busy.get(request.path, 0) > 0:
            busy[request.path] -= 1
            return web.json_response({}, status=429, headers={"Retry-After": "0.01"})
        return web.json_response({})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    listener = await AppListener.open(app, "127.0.0.1", 0)
    transport = Transport(ClusterConfig(server=f"http://127.0.0.1:{listener.address[1]}"), connections=64)
    try:
        status, _, _ = await transport.request("POST", "/api/v1/namespaces/a/pods/b/eviction", body=b"{}", max_wait=0.0)
        assert (status, transport.flow.limit) == (429, 64)
        status, _, _ = await transport.request("GET", "/api/v1/pods")
        assert status == 200 and transport.flow.limit < 64
        async with asyncio.timeout(300), asyncio.TaskGroup() as group:
            for _ in range(transport.flow.limit):
                await transport.flow._enter()
            lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/x"
            group.create_task(transport.request("GET", lease))
    finally:
        await transport.close()
        await listener.close()
