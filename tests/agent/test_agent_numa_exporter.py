"""What an exporter makes of a kubelet's files, and what it writes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from test_agent_cpus import TWO_SOCKETS, tree

from support.memory import MemoryClient
from support.virtual_clock import VirtualClock
from unisono.agent.cpus.numatopology import LOOK_SECONDS_KUBELET, OURS, REFRESH_SECONDS, KubeletPlace, NumaExporter
from unisono.api.base import ObjectMeta
from unisono.api.core import Node
from unisono.api.groups.topology import Numatopology
from unisono.api.kinds import NODES, NUMATOPOLOGIES
from unisono.errors import AgentError

STATIC: dict[str, Any] = {
    "policyName": "static",
    "defaultCpuSet": "0-3,6-11,14-15",
    "entries": {"0f1c": {"train": "4-5,12-13"}},
    "checksum": 3242152201,
}
"""As Kubernetes 1.32 keeps it: what containers have, and what all others share."""
IDLE = {"policyName": "none", "defaultCpuSet": "", "checksum": 1353318690}
CONFIG = """
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
topologyManagerPolicy: single-numa-node
kubeReserved: {cpu: 500m, memory: 1Gi}
systemReserved: {cpu: "1"}
evictionHard: {memory.available: 100Mi}
"""


def place(root: Path, state: Any = None, config: str | None = CONFIG) -> KubeletPlace:
    system = root / "system"
    if not system.exists():
        tree(system, TWO_SOCKETS, "0-15")
    kubelet = root / "kubelet"
    kubelet.mkdir(exist_ok=True)
    if state is not None:
        text = state if isinstance(state, str) else json.dumps(state)
        (kubelet / "cpu_manager_state").write_text(text)
    if config is not None:
        (kubelet / "config.yaml").write_text(config)
    return KubeletPlace(kubelet, system=system)


@pytest.mark.parametrize(
    ("state", "config", "policies", "reserved", "free"),
    [
        (STATIC, CONFIG, ("static", "single-numa-node"), {"cpu": "1500m"}, "0-3,6-11,14-15"),
        # In JSON, as Amazon's images have it.
        (STATIC, '{"kubeReserved": {"cpu": "2"}}', ("static", "none"), {"cpu": "2"}, "0-3,6-11,14-15"),
        # The kubelet is told which CPUs to keep: they are no choice of the scheduler's.
        (
            STATIC,
            "reservedSystemCPUs: 0,8\nsystemReserved: {cpu: 1}\ntopologyManagerPolicy: restricted",
            ("static", "restricted"),
            {},
            "1-3,6-7,9-11,14-15",
        ),
        # What the manager does counts, not what a changed file asks it to do after its next start.
        (IDLE, CONFIG, ("none", "single-numa-node"), {}, "0-15"),
        # A kubelet without a file, or with an empty one.
        (IDLE, None, ("none", "none"), {}, "0-15"),
        (STATIC, "", ("static", "none"), {}, "0-3,6-11,14-15"),
        # A CPU that is given stays taken, also where the shared ones are written down late.
        (
            STATIC | {"defaultCpuSet": "0-15"},
            CONFIG,
            ("static", "single-numa-node"),
            {"cpu": "1500m"},
            "0-3,6-11,14-15",
        ),
        # CPUs that the machine does not have.
        (STATIC | {"defaultCpuSet": "0-400", "entries": {}}, "", ("static", "none"), {}, "0-15"),
    ],
)
def test_what_is_told(
    tmp_path: Path, state: Any, config: str | None, policies: tuple[str, str], reserved: dict[str, str], free: str
) -> None:
    spec = place(tmp_path, state, config).read()
    assert spec.policies == dict(zip(("CPUManagerPolicy", "TopologyManagerPolicy"), policies, strict=True))
    assert spec.res_reserved == reserved
    assert spec.numares is not None
    assert (spec.numares["cpu"].allocatable, spec.numares["cpu"].capacity) == (free, 16)
    assert spec.cpu_detail is not None
    assert {int(cpu): (one.numa, one.socket, one.core) for cpu, one in spec.cpu_detail.items()} == TWO_SOCKETS


def test_pods_that_hold_cpus_are_named(tmp_path: Path) -> None:
    (pod,) = place(tmp_path, STATIC).read().pod_allocations or ()
    assert (pod.uid, pod.name) == ("0f1c", None)
    (container,) = pod.container_allocations or ()
    assert (container.name, container.allocations) == ("train", {"cpu": "4-5,12-13"})


@pytest.mark.parametrize(
    ("state", "config", "told"),
    [
        (None, CONFIG, "cpu_manager_state"),
        ("", CONFIG, "not the state of a CPU manager"),
        ("[]", CONFIG, "not the state of a CPU manager"),
        (STATIC | {"defaultCpuSet": "all"}, CONFIG, "defaultCpuSet: not a list of CPUs"),
        (STATIC | {"entries": {"u": {"c": "4-"}}}, CONFIG, "entries.u.c"),
        (STATIC | {"entries": {str(number): {} for number in range(10_001)}}, CONFIG, "more than 10000 pods"),
        (STATIC | {"padding": "x" * (4 << 20)}, CONFIG, "larger than 4 MiB"),
        (STATIC, "topologyManagerPolicy: often", "topologyManagerPolicy: 'often' is not one of none"),
        (STATIC, "kubeReserved: {cpu: many}", "kubeReserved.cpu is not an amount"),
        (STATIC, "kubeReserved: all", "kubeReserved.cpu is not an amount"),
        (STATIC, "reservedSystemCPUs: x", "reservedSystemCPUs"),
        (STATIC, "- a", "not a KubeletConfiguration"),
        (STATIC, "a: [", "config.yaml"),
    ],
)
def test_what_cannot_be_read_is_named_and_nothing_is_told(tmp_path: Path, state: Any, config: str, told: str) -> None:
    with pytest.raises(AgentError, match=told):
        place(tmp_path, state, config).read()


def test_a_configuration_that_is_named_must_be_there(tmp_path: Path) -> None:
    found = place(tmp_path, STATIC, None)
    with pytest.raises(AgentError, match="absent"):
        KubeletPlace(found.directory, tmp_path / "absent", found.system).read()


# ---- what is written


class Exporting:
    def __init__(self, where: KubeletPlace) -> None:
        self.clock = VirtualClock()
        self.client = MemoryClient(self.clock)
        self.client.put(NODES, Node(metadata=ObjectMeta(name="n", uid="node-uid")))
        self.exporter = NumaExporter(self.client, "n", where, self.clock)

    @property
    def found(self) -> Numatopology | None:
        return self.client.find(NUMATOPOLOGIES, "n")

    @property
    def free(self) -> str | None:
        assert self.found is not None
        return (self.found.spec.numares or {})["cpu"].allocatable

    async def look(self, seconds: float = LOOK_SECONDS_KUBELET) -> None:
        await self.clock.advance(seconds)


@asynccontextmanager
async def exporting(where: KubeletPlace) -> AsyncIterator[Exporting]:
    made = Exporting(where)
    task = asyncio.create_task(made.exporter.run())
    try:
        await made.look(0)
        yield made
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_the_object_follows_the_files_and_goes_with_the_node(tmp_path: Path) -> None:
    async with exporting(place(tmp_path, STATIC)) as node:
        assert node.exporter.ready.is_set()
        assert node.found is not None
        (owner,) = node.found.metadata.owner_references or ()
        assert (owner.kind, owner.name, owner.uid) == ("Node", "n", "node-uid")
        writes = len(node.client.writes)
        await node.look(REFRESH_SECONDS * 3)
        assert len(node.client.writes) == writes
        place(tmp_path, STATIC | {"defaultCpuSet": "0-15", "entries": {}})
        await node.look()
        assert node.free == "0-15"
        assert not node.found.spec.pod_allocations
        place(tmp_path, STATIC, "reservedSystemCPUs: 0,8")
        await node.look()
        assert not node.found.spec.res_reserved


async def test_an_object_that_a_user_deletes_comes_back(tmp_path: Path) -> None:
    async with exporting(place(tmp_path, STATIC)) as node:
        await node.client.delete(NUMATOPOLOGIES, "n")
        await node.look(REFRESH_SECONDS + LOOK_SECONDS_KUBELET)
        assert node.free == "0-3,6-11,14-15"


async def test_what_cannot_be_read_now_leaves_the_object_and_is_told(tmp_path: Path) -> None:
    async with exporting(place(tmp_path, STATIC)) as node:
        (tmp_path / "kubelet" / "cpu_manager_state").write_text("{")
        await node.look()
        assert node.free == "0-3,6-11,14-15"
        assert "not the state of a CPU manager" in node.exporter.unready()[0]
        place(tmp_path, STATIC | {"defaultCpuSet": "0-15", "entries": {}})
        await node.look()
        assert node.exporter.unready() == []
        assert node.free == "0-15"


@pytest.mark.parametrize(
    "meta",
    [{"name": "n"}, {"name": "n", "labels": dict(OURS), "annotations": {"timestamp": "1700000000"}}],
    ids=["made by another", "written to by another"],
)
async def test_it_stands_aside_where_another_exporter_writes(tmp_path: Path, meta: dict[str, Any]) -> None:
    where = place(tmp_path, STATIC)
    made = Exporting(where)
    made.client.put(NUMATOPOLOGIES, Numatopology(metadata=ObjectMeta(**meta)))
    task = asyncio.create_task(made.exporter.run())
    await made.look(REFRESH_SECONDS * 3)
    assert not made.client.writes
    assert made.exporter.unready() == []
    # Once it is gone, so is its object.
    await made.client.delete(NUMATOPOLOGIES, "n")
    await made.look(REFRESH_SECONDS + LOOK_SECONDS_KUBELET)
    assert made.free == "0-3,6-11,14-15"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_node_that_is_not_known_yet_is_waited_for(tmp_path: Path) -> None:
    made = Exporting(place(tmp_path, STATIC))
    await made.client.delete(NODES, "n")
    task = asyncio.create_task(made.exporter.run())
    await made.look()
    assert "n" in made.exporter.unready()[0]
    made.client.put(NODES, Node(metadata=ObjectMeta(name="n", uid="later")))
    await made.look()
    assert made.free == "0-3,6-11,14-15"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
