"""Cards and CPUs chosen by the engine reach the pods, and objects of nodes reach the engine."""

from __future__ import annotations

import msgspec
from scheduler_world import Fixed, group, node, pod, queue, world

from support.memory import MemoryClient
from unisono import engine
from unisono.api.core import Pod
from unisono.api.groups.topology import Numatopology
from unisono.api.kinds import NODES, NUMATOPOLOGIES, POD_GROUPS, PODS, QUEUES
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.config_file.reader import load_config

MEM = "aliyun.com/gpu-mem"


class Chosen(Fixed):
    def __init__(self, *plugins: str) -> None:
        listed = "".join(f"\n  - name: {name}" for name in ("gang", "predicates", *plugins))
        self._config = load_config(f"actions: allocate\ntiers:\n- plugins:{listed}\n")
        self.error, self.name, self.reference, self.text = "", "a test", None, ""

    def poll(self) -> SchedulerConfig:
        return self._config


def limited(made: Pod, **limits: str) -> Pod:
    assert made.spec.containers
    resources = made.spec.containers[0].resources
    assert resources is not None
    resources.requests, resources.limits = dict(limits), dict(limits)
    return made


def notes_of(client: MemoryClient, key: str) -> dict[str, str | None]:
    return {pod.metadata.name: (pod.metadata.annotations or {}).get(key) for pod in client.objects(PODS)}


async def test_pods_are_bound_with_their_cards() -> None:
    client = MemoryClient()
    client.put(QUEUES, queue())
    machine = node("n0", cpu="8")
    assert machine.status.allocatable is not None
    machine.status.allocatable |= {MEM: "32", "aliyun.com/gpu-count": "2"}
    client.put(NODES, machine)
    async with world(client, engine.run, config=Chosen("deviceshare")) as it:
        for name in "abc":
            client.put(POD_GROUPS, group(name, 1))
            client.put(PODS, limited(pod(f"{name}-0", name), **{MEM: "10"}))
            await it.run(2)
        assert it.nodes_of() == {"a-0": "n0", "b-0": "n0", "c-0": None}
        assert notes_of(client, "ALIYUN_COM_GPU_MEM_IDX") == {"a-0": "0", "b-0": "1", "c-0": None}


async def test_pods_are_bound_with_their_numa_nodes() -> None:
    client = MemoryClient()
    client.put(QUEUES, queue())
    client.put(NODES, node("n0", cpu="8"))
    spec = {
        "policies": {"CPUManagerPolicy": "static", "TopologyManagerPolicy": "single-numa-node"},
        "numares": {"cpu": {"allocatable": "0-7", "capacity": 8}},
        "cpuDetail": {str(cpu): {"numa": cpu // 4, "socket": cpu // 4, "core": cpu} for cpu in range(8)},
    }
    client.put(NUMATOPOLOGIES, msgspec.convert({"metadata": {"name": "n0"}, "spec": spec}, Numatopology))
    async with world(client, engine.run, config=Chosen("numa-aware")) as it:
        for name in "ab":
            client.put(POD_GROUPS, group(name, 1))
            client.put(PODS, limited(pod(f"{name}-0", name), cpu="3", memory="1Gi"))
            await it.run(2)
        assert notes_of(client, "volcano.sh/topology-decision") == {
            "a-0": '{"numa":{"0":{"cpu":"3"}}}',
            "b-0": '{"numa":{"1":{"cpu":"3"}}}',
        }
