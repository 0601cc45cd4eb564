"""CPUs of this machine: their layout in sysfs, who holds which, and the pinning of processes to them."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from unisono.agent.limits.memory_watch import WatchLoop
from unisono.agent.machine.cgroups import LimitGroups
from unisono.agent.machine.procfs import PROC
from unisono.api.core import Container, Pod
from unisono.api.numa import NONE, STATIC, CpuTopology, assign, bits, parse_cpus, take, write_cpus
from unisono.api.pod_states import qos_class
from unisono.api.resources import effective_requests
from unisono.errors import AgentError
from unisono.kube.clock import Clock

# Where the CPUs of this machine sit: socket, core and NUMA node of each, as the kernel tells under /sys.

SYSTEM = Path("/sys/devices/system")
Place = tuple[int, int, int]
"""NUMA node, socket and core."""


def read_cpus(system: Path = SYSTEM, allowed: Iterable[int] | None = None) -> dict[int, Place]:
    """The place of each CPU that is online.

    Args:
        system: the kernel's folder of CPUs and NUMA nodes.
        allowed: only these CPUs; None takes those that this process may use.

    Returns:
        Nothing where the kernel does not tell. A CPU whose place is not told counts as a core of its own on socket 0;
        one that no NUMA node lists is on node 0.
    """
    online = _cpus(system / "cpu" / "online")
    may = set(os.sched_getaffinity(0) if allowed is None else allowed)
    nodes = {cpu: node for node, mask in _numa_nodes(system) for cpu in bits(mask)}
    places = {}
    for cpu in bits(online):
        if cpu in may:
            folder = system / "cpu" / f"cpu{cpu}" / "topology"
            # Some virtual machines say -1.
            socket = max(0, _number(folder / "physical_package_id", 0))
            core = _number(folder / "core_id", cpu)
            places[cpu] = (nodes.get(cpu, 0), socket, cpu if core < 0 else core)
    return places


def online_cpus(system: Path = SYSTEM) -> list[int]:
    """Numbers of the CPUs that are online, whether this process may use them or not."""
    return list(bits(_cpus(system / "cpu" / "online")))


def _numa_nodes(system: Path) -> list[tuple[int, int]]:
    nodes = []
    for path in (system / "node").glob("node*/cpulist"):
        name = path.parent.name.removeprefix("node")
        if name.isascii() and name.isdigit():
            nodes.append((int(name), _cpus(path)))
    return sorted(nodes)


def _cpus(path: Path) -> int:
    try:
        return parse_cpus(path.read_text().strip())
    except (OSError, ValueError):
        return 0


def _number(path: Path, default: int) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return default


# Which containers have which CPUs for themselves: the kubelet's policy ``static`` and its topology policies. Pure.

NOT_ALIGNED: Final = "Resources cannot be allocated with Topology locality"


class NotAligned(AgentError):
    """The topology policy refuses the pod; the words are the kubelet's."""


@dataclass(frozen=True, slots=True)
class CpuPolicies:
    """What the node does, in the words of the kubelet's configuration.

    Attributes:
        cpu: ``none``, or ``static``: containers of Guaranteed pods that ask for whole CPUs have them for themselves.
        topology: ``none``, ``best-effort``, ``restricted`` or ``single-numa-node``.
        reserved: CPUs that no container has for itself, with policy ``static``.
    """

    cpu: str = NONE
    topology: str = NONE
    reserved: int = 1


NO_POLICIES: Final = CpuPolicies()
"""All containers share all CPUs."""


class CpuBook:
    """CPUs of one node.

    Args:
        detail: the place of each CPU.
        policies: of the node.

    Raises:
        AgentError: more CPUs are reserved than pods can spare.
    """

    def __init__(self, detail: Mapping[int, Place], policies: CpuPolicies) -> None:
        self.detail, self.policies = dict(detail), policies
        self.topology = CpuTopology.of(detail) if detail else None
        # By pod and container, a mask.
        self.given: dict[str, dict[str, int]] = {}
        self._reserved = 0
        if self.pins and self.topology is not None:
            if not 0 < policies.reserved <= len(detail):
                raise AgentError(
                    f"--reserved-cpus {policies.reserved}: with the CPU manager policy static at least 1 and at most "
                    f"{len(detail)} CPUs are reserved, on which all other containers run."
                )
            self._reserved = take(self.topology, self.topology.all, policies.reserved) or 0

    @property
    def pins(self) -> bool:
        """Whether containers can have CPUs for themselves."""
        return self.policies.cpu == STATIC and self.topology is not None

    @property
    def exclusive(self) -> int:
        """Mask of the CPUs that containers have for themselves."""
        mask = 0
        for containers in self.given.values():
            for cpus in containers.values():
                mask |= cpus
        return mask

    @property
    def shared(self) -> int:
        """Mask of the CPUs on which all other containers run."""
        return 0 if self.topology is None else self.topology.all & ~self.exclusive

    def allocate(self, pod: Pod) -> dict[str, int]:
        """Mask by container, for containers that get CPUs for themselves; those that the pod holds when it does.

        Raises:
            NotAligned: the topology policy refuses it.
            AgentError: not enough CPUs are free.
        """
        uid = pod.metadata.uid or ""
        if uid in self.given or not self.pins or self.topology is None:
            return self.given.get(uid, {})
        requested = {each.name: whole_cpus(pod, each) for each in pod.spec.containers or ()}
        if not any(requested.values()):
            return {}
        free = self.shared & ~self._reserved
        masks = assign(self.topology, free, tuple(requested.values()), self.policies.topology)
        if masks is None:
            raise NotAligned(NOT_ALIGNED)
        given = {name: mask for name, mask in zip(requested, masks, strict=True) if mask}
        if len(given) < sum(map(bool, requested.values())):
            raise AgentError(
                f"not enough cpus available to satisfy request: requested={sum(requested.values())}, "
                f"available={free.bit_count()}"
            )
        self.given[uid] = given
        return given

    def restore(self, uid: str, recorded: Mapping[str, str]) -> None:
        """Take over what an earlier agent gave a pod, as far as the machine has these CPUs still."""
        if self.topology is None or not self.pins:
            return
        given = {name: parse_cpus(text) & self.topology.all for name, text in recorded.items()}
        if given := {name: mask for name, mask in given.items() if mask}:
            self.given[uid] = given

    def release(self, uid: str) -> bool:
        """The pod has ended; whether it held CPUs."""
        return self.given.pop(uid, None) is not None

    def recorded(self, uid: str) -> dict[str, str]:
        """What a pod holds, as it is kept on disk and shown: ``0-3,8`` by container."""
        return {name: write_cpus(mask) for name, mask in self.given.get(uid, {}).items()}

    def cpus_of(self, uid: str, container: str) -> list[int] | None:
        """On which CPUs a container runs; None is anywhere. Init containers share, as all that are not given any."""
        if not self.pins:
            return None
        own = self.given.get(uid, {})
        if container in own:
            return list(bits(own[container]))
        return list(bits(self.shared))


def whole_cpus(pod: Pod, container: Container) -> int:
    """How many CPUs a container is to have for itself; 0 for those that share."""
    if qos_class(pod.spec) != "Guaranteed":
        return 0
    milli = effective_requests(container.resources).get("cpu", 0)
    return milli // 1000 if milli and milli % 1000 == 0 else 0


# Keeping the processes of running containers on the CPUs that are theirs.
#
# A container applies the CPUs that were its own when it was prepared. If another one was given some of them meanwhile,
# and the agent moved all others before this one's command ran, nothing else would notice: so the keeper looks again and
# again, as the kubelet's CPU manager does.

# A container that starts processes while its others are moved is looked at again.
_ROUNDS = 5
# As often as the kubelet reconciles.
_LOOK_SECONDS = 10.0


def move(groups: LimitGroups, uid: str, cpus: Callable[[str], Iterable[int] | None], proc: Path = PROC) -> int:
    """Move all threads of a pod's containers to the CPUs that are theirs; answers how many were moved.

    Threads inherit the CPUs of the thread that starts them, so that later ones follow.

    Args:
        groups: where processes are listed.
        uid: the pod.
        cpus: where a container is to run; None is where it is.
        proc: where the kernel lists threads.
    """
    return _move(groups, uid, cpus, proc, lambda _thread, _wanted: True)


def move_strays(groups: LimitGroups, uid: str, cpus: Callable[[str], Iterable[int] | None]) -> int:
    """As `move`, but of threads that may run elsewhere only: a program may choose among the CPUs that are its own."""
    return _move(groups, uid, cpus, PROC, _is_stray)


def _move(
    groups: LimitGroups,
    uid: str,
    cpus: Callable[[str], Iterable[int] | None],
    proc: Path,
    must_move: Callable[[int, Iterable[int]], bool],
) -> int:
    seen: set[int] = set()
    moved = 0
    for _ in range(_ROUNDS):
        threads = {
            thread: wanted
            for leaf, pids in groups.processes(uid).items()
            if (wanted := cpus(leaf.rpartition(".")[0]))
            for pid in pids
            for thread in _threads(pid, proc)
            if thread not in seen
        }
        if not threads:
            break
        for thread, allowed in threads.items():
            # It may have ended.
            with contextlib.suppress(OSError):
                if must_move(thread, allowed):
                    os.sched_setaffinity(thread, allowed)
                    moved += 1
        seen |= set(threads)
    return moved


def _is_stray(thread: int, wanted: Iterable[int]) -> bool:
    return not os.sched_getaffinity(thread) <= set(wanted)


def _threads(pid: int, proc: Path) -> list[int]:
    try:
        return [int(path.name) for path in (proc / str(pid) / "task").iterdir()]
    except OSError:
        return []


class AffinityKeeper:
    """Keeps containers off the CPUs of others, where containers can have CPUs for themselves.

    Args:
        clock: paces the looks.
        book: which containers have which CPUs.
        groups: where processes are listed.
        pods: uids of the pods on this node.
    """

    def __init__(self, clock: Clock, book: CpuBook, groups: LimitGroups, pods: Callable[[], Iterable[str]]) -> None:
        self._book, self._groups, self._pods = book, groups, pods
        self._loop: WatchLoop[str, None] = WatchLoop("cpus", clock, _LOOK_SECONDS, self._look)
        if book.pins:
            self._loop.add("node", None)

    async def run(self) -> None:
        """Look until cancelled."""
        await self._loop.run()

    async def _look(self, _: object) -> None:
        for uid in list(self._pods()):
            # Not in another thread: the book must not change between the question and the move.
            move_strays(self._groups, uid, partial(self._book.cpus_of, uid))
            await asyncio.sleep(0)
