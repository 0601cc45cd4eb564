"""What the NUMA nodes of machines lack for a pod whose CPUs have to be on one of them, or on few."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from unisono.api import keys
from unisono.api.numa import RESTRICTED, SINGLE
from unisono.cluster.podclass import PodClass
from unisono.engine.changes import RequestAtMost, listed
from unisono.engine.cycle.context import Cycle
from unisono.engine.plugins.numa_aware import REFUSED, NumaBook, whole_cpus
from unisono.engine.verdicts.lack import Lack


class _Best(NamedTuple):
    """CPUs of one NUMA node: free ones, how many it has, and its machine."""

    free: int = 0
    whole: int = 0
    name: str = ""


def numa_lacks(cycle: Cycle, pod_class: PodClass, counts: Mapping[str, int]) -> Iterator[Lack]:
    """What the NUMA nodes lack for pods of a class; ``counts``: nodes by the reason that refuses them."""
    policy = pod_class.notes.get(keys.NUMA_TOPOLOGY_POLICY, "")
    if any(reason.startswith(f"task topology policy[{policy}]") for reason in counts):
        others = sorted({node.policy for node in NumaBook(cycle.session).nodes.values()} - {policy})
        what = f"the pods ask for topology policy {policy}, and nodes have {listed(tuple(others))}"
        yield Lack(what, f"ask for topology policy {' or '.join(others)}, or add nodes with {policy}")
    wanted = max((whole_cpus(one) for one in pod_class.containers), default=0)
    if REFUSED.text not in counts or not wanted:
        return
    book, names = NumaBook(cycle.session), cycle.session.snapshot.nodes.names
    best, largest = _Best(), _Best()
    for column, node in book.nodes.items():
        if node.topology is None or node.policy not in (SINGLE, RESTRICTED):
            continue
        for _, cpus in node.topology.numa:
            one = _Best((cpus & book.free(column)).bit_count(), cpus.bit_count(), names[column])
            best, largest = max(best, one), max(largest, one, key=lambda each: each.whole)
    if not largest.name:
        return
    asks = f"a container asks for {wanted} CPUs of one NUMA node"
    if wanted > largest.whole:
        what = f"{asks}, and the largest NUMA node (of {largest.name}) has {largest.whole}"
    else:
        what = f"{asks}, and the NUMA node with most free (of {best.name}) has {best.free} of {best.whole}"
    most = largest.whole if wanted > largest.whole else best.free
    alone = len(pod_class.containers) == 1 and not pod_class.init_containers
    change = RequestAtMost({"cpu": most * 1000}) if alone and most else None
    yield Lack(what, f"ask for at most {most} CPUs per container" if most else "wait until CPUs are free", change)
