"""Which containers have which CPUs for themselves: the kubelet's policy ``static`` and its topology policies. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from unisono.agent.cpus.sysfs import Place
from unisono.api.core import Container, Pod
from unisono.api.numa import NONE, STATIC, CpuTopology, assign, bits, parse_cpus, take, write_cpus
from unisono.api.pod_states import qos_class
from unisono.api.resources import effective_requests
from unisono.errors import AgentError

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
        wanted = {each.name: whole_cpus(pod, each) for each in pod.spec.containers or ()}
        if not any(wanted.values()):
            return {}
        free = self.shared & ~self._reserved
        found = assign(self.topology, free, tuple(wanted.values()), self.policies.topology)
        if found is None:
            raise NotAligned(NOT_ALIGNED)
        given = {name: mask for name, mask in zip(wanted, found, strict=True) if mask}
        if len(given) < sum(map(bool, wanted.values())):
            raise AgentError(
                f"not enough cpus available to satisfy request: requested={sum(wanted.values())}, "
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
