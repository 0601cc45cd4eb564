"""The real engine under an API server that fails, and a scheduler that dies, at moments that Hypothesis chooses."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from scheduler_world import fill, inline

from support.examples import examples
from support.memory import MemoryClient
from unisono.api.kinds import POD_GROUPS, PODS
from unisono.errors import ApiError, Conflict, Unavailable
from unisono.scheduler.scheduler import Scheduler

NODES, CPUS, PATIENCE = 3, 4, 15.0
GANGS = {"a": 5, "b": 4, "c": 3}

Step = tuple[str, float]
steps = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "submit",
                "lose answer",
                "slow bind",
                "refuse bind",
                "busy",
                "conflict",
                "drop watches",
                "compact",
                "crash",
                "delete pod",
                "wait",
            ]
        ),
        st.sampled_from([0.0, 0.01, 0.021, 0.05, 0.3, 2.0]),
    ),
    max_size=12,
)


class Trouble:
    """An API server that does what the next step says, and checks every bind that it accepts."""

    def __init__(self) -> None:
        self.client = MemoryClient()
        self.next: dict[str, int] = Counter()
        self.bound: dict[str, str] = {}
        self.under_way: set[str] = set()
        self.broken: list[str] = []
        self._bind = self.client.bind
        self.client.bind = self.bind  # type: ignore[method-assign,assignment]
        self.client.interceptor = self.intercept

    def intercept(self, operation: str, resource: str, namespace: str, name: str) -> None:
        if operation == "bind" and self._take("refuse bind"):
            raise ApiError("refused", code=403, reason="Forbidden")
        if operation == "patch" and self._take("conflict"):
            raise Conflict("modified")
        if operation != "watch" and self._take("busy"):
            raise Unavailable("busy")

    async def bind(self, namespace: str, pod: str, node: str, **options: Any) -> None:
        uid = options["uid"]
        if uid in self.under_way:
            self.broken.append(f"{pod} is bound again while its bind is on its way")
        self.under_way.add(uid)
        try:
            if self._take("slow bind"):
                await self.client.clock.sleep(0.5)
            await self._bind(namespace, pod, node, **options)
        finally:
            self.under_way.discard(uid)
        if uid in self.bound:
            self.broken.append(f"{pod} was bound twice")
        self.bound[uid] = node
        self.check_nodes()
        if self._take("lose answer"):
            raise Unavailable("connection lost")

    def check_nodes(self) -> None:
        used = Counter(pod.spec.node_name for pod in self.client.objects(PODS) if pod.spec.node_name)
        if any(count > CPUS for count in used.values()):
            self.broken.append(f"a node is over its allocatable: {used}")

    def _take(self, trouble: str) -> bool:
        if self.next[trouble] > 0:
            self.next[trouble] -= 1
            return True
        return False


class Runs:
    """A scheduler that can be killed and started again."""

    def __init__(self, trouble: Trouble) -> None:
        self.trouble, self.client = trouble, trouble.client
        self.task: asyncio.Task[None] | None = None

    def start(self) -> None:
        scheduler = Scheduler(
            self.client, clock=self.client.clock, runner=inline, gang_patience=PATIENCE, debounce=0.02
        )
        self.task = asyncio.create_task(scheduler.run())

    async def stop(self) -> None:
        assert self.task is not None
        self.task.cancel()
        await self.client.clock.advance(2.1)
        await asyncio.gather(self.task, return_exceptions=True)


async def play(story: list[Step]) -> None:
    trouble = Trouble()
    client = trouble.client
    fill(client, nodes=NODES)
    left = dict(GANGS)
    runs = Runs(trouble)
    runs.start()
    for what, seconds in story:
        await client.clock.advance(seconds)
        if what == "submit":
            if left:
                fill(client, nodes=0, gangs=dict([left.popitem()]))
        elif what == "drop watches":
            client.drop_watches()
        elif what == "compact":
            client.drop_watches()
            client.compact()
        elif what == "crash":
            await runs.stop()
            runs.start()
        elif what == "delete pod":
            waiting = [pod for pod in client.objects(PODS) if not pod.spec.node_name]
            if waiting:
                client.remove(PODS, waiting[0].key)
        elif what != "wait":
            trouble.next[what] += 2
    trouble.next.clear()
    fill(client, nodes=0, gangs=left)
    # Longer than the patience with half-bound gangs, the longest back-off and the re-examination together.
    await client.clock.advance(PATIENCE + 150)
    await runs.stop()
    assert not trouble.broken, trouble.broken
    check(client)


def check(client: MemoryClient) -> None:
    for name, members in GANGS.items():
        pods = [pod for pod in client.objects(PODS) if pod.metadata.name.startswith(f"{name}-")]
        placed = [pod for pod in pods if pod.spec.node_name and not pod.metadata.deletion_timestamp]
        if len(pods) < members:
            # A pod of it was deleted and nobody makes a new one: the rest must not hold a node.
            assert not placed, f"gang {name} is bound in part: {len(placed)} of {members}"
        else:
            assert len(placed) == members, f"gang {name} waits although everything fits: {len(placed)} of {members}"
    assert len(client.objects(POD_GROUPS)) == len(GANGS)


HALF_A_GANG: list[Step] = [("refuse bind", 0.0), ("submit", 0.0), ("delete pod", 0.021)]
SLOW_BINDS: list[Step] = [("slow bind", 0.0), ("submit", 0.0), ("submit", 0.05), ("submit", 0.05)]
DELETED: list[Step] = [("slow bind", 0.0), ("submit", 0.0), ("delete pod", 0.021)]


@pytest.mark.more
@example(HALF_A_GANG)
@example(SLOW_BINDS)
@example(DELETED)
@settings(max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps)
def test_no_fault_leads_to_a_double_bind_a_full_node_or_half_a_gang(story: list[Step]) -> None:
    asyncio.run(play(story))
