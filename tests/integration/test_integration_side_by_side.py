"""Beside a scheduler of somebody else's on the same nodes: nobody starves, and what has gone is not counted."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from integration_foreign import Foreign, foreign_pod
from integration_world import Plane, plane

from unisono.api.core import Pod
from unisono.api.kinds import NODES, PODS
from unisono.kube.kubeconfig import ClusterConfig

NODE_COUNT, CPUS = 4, 8
ROOM = NODE_COUNT * CPUS


@asynccontextmanager
async def beside(it: Plane, *, seed: int = 1, preempts: bool = False) -> AsyncIterator[Foreign]:
    """The other one at work."""
    await it.ledger.until(lambda: len(it.ledger.nodes) == NODE_COUNT)
    other = Foreign(it.client, it.namespace, seed, preempts=preempts)
    running = asyncio.create_task(other.run())
    try:
        yield other
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def fill(it: Plane, pods: int) -> None:
    for number in range(pods):
        await it.client.create(PODS, foreign_pod(it.namespace, "1", f"foreign-{number}"))
    await it.ledger.until(lambda: len(it.ledger.bound("foreign-")) == pods)


def on(it: Plane, prefix: str, nodes: set[str]) -> int:
    return sum(pod.spec.node_name in nodes for pod in it.ledger.bound(prefix))


async def test_both_fill_the_same_nodes_and_everybody_gets_through(config: ClusterConfig) -> None:
    rng = random.Random(5)
    gangs = {f"gang-{number}": rng.randint(2, 12) for number in range(8)}
    async with plane(config, nodes=NODE_COUNT, cpus=CPUS) as it, beside(it):
        for number, (name, pods) in enumerate(gangs.items()):
            await it.submit(name, pods, seconds=rng.random(), again=True)
            for one in range(8):
                seconds = rng.random()
                await it.client.create(PODS, foreign_pod(it.namespace, "1", f"theirs-{number}-{one}", seconds=seconds))
        await it.completed(*gangs)

        def over() -> list[Pod]:
            found = [pod for pod in it.ledger.pods.items() if pod.metadata.name.startswith("theirs-")]
            return [pod for pod in found if pod.status.phase in ("Succeeded", "Failed")]

        await it.ledger.until(lambda: len(over()) == 8 * len(gangs))
        # Two decisions at one moment may meet on a node, which refuses the later pod; nothing of it may be left when
        # the pods are over.
        assert all(pod.status.phase == "Succeeded" or pod.status.reason == "OutOfcpu" for pod in over())
        assert all(text.startswith("node ") for text in it.ledger.broken)
        it.ledger.broken.clear()
        await it.submit("whole", ROOM)
        await it.completed("whole")
        it.held()


async def test_room_is_taken_as_pods_of_the_other_go(config: ClusterConfig) -> None:
    rng = random.Random(2)
    async with plane(config, nodes=NODE_COUNT, cpus=CPUS) as it:
        async with beside(it):
            await fill(it, ROOM)
        await it.submit("ours", ROOM, minimum=1, seconds=None)
        names = [f"foreign-{number}" for number in range(ROOM)]
        rng.shuffle(names)
        gone = 0
        while names:
            for _ in range(min(len(names), rng.randint(1, 12))):
                await it.client.delete(PODS, names.pop(), it.namespace, grace_seconds=0)
                gone += 1
            await it.ledger.until(lambda gone=gone: len(it.ledger.bound("ours-")) == gone)
        it.held()


async def test_taints_hold_while_the_other_has_pods_there(config: ClusterConfig) -> None:
    async with plane(config, nodes=NODE_COUNT, cpus=CPUS) as it:
        async with beside(it):
            await fill(it, NODE_COUNT)
        names = sorted(node.metadata.name for node in it.ledger.nodes.items())
        closed, open_ = names[:2], set(names[2:])
        taint = [{"key": "maintenance", "effect": "NoSchedule"}]
        for name in closed:
            await it.client.patch(NODES, name, {"spec": {"taints": taint}})
        await it.ledger.until(lambda: sum(bool(node.spec.taints) for node in it.ledger.nodes.items()) == len(closed))
        await it.submit("ours", ROOM, minimum=1, seconds=None)
        free = len(open_) * CPUS - on(it, "foreign-", open_)
        await it.ledger.until(lambda: len(it.ledger.bound("ours-")) == free)
        assert on(it, "ours-", open_) == free
        for name in closed:
            await it.client.patch(NODES, name, {"spec": {"taints": None}})
        await it.ledger.until(lambda: len(it.ledger.bound("ours-")) == ROOM - NODE_COUNT)
        it.held()


async def test_a_node_that_the_other_has_cleared_is_left_to_it(config: ClusterConfig) -> None:
    """Our pods come back at once and want the room; taking it would make the other clear a node again and again."""
    async with plane(config, nodes=NODE_COUNT, cpus=CPUS) as it, beside(it, preempts=True) as other:
        await it.submit("ours", ROOM, minimum=1, seconds=None)
        await it.ledger.until(lambda: len(it.ledger.bound("ours-")) == ROOM)
        await it.client.create(PODS, foreign_pod(it.namespace, str(CPUS), "large"))
        await it.ledger.until(lambda: len(it.ledger.bound("large")) == 1)
        await it.ledger.until(lambda: sum(not pod.spec.node_name for pod in it.ledger.pods.items()) == CPUS)
        assert other.preempted == {"large": 1}
        assert len(it.ledger.bound("ours-")) == ROOM - CPUS
        await it.client.delete(PODS, "large", it.namespace, grace_seconds=0)
        await it.ledger.until(lambda: len(it.ledger.bound("ours-")) == ROOM)
        it.held()
