"""How many machines the waiting gangs need (pure).

A gang gets machines for all of its pods or none: half a gang's machines would cost money and run nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from unisono.api.core import Taint, Toleration

Amounts = Mapping[str, int]

MOST_MACHINES = 5000
"""Machines of one pool that are looked at: nodes of the largest cluster that Kubernetes is made for."""
MOST_TRIES = 100_000
"""Places that are looked at for one gang; a gang that needs more gets no machines, so that others get theirs."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Pods that are alike and need places.

    Attributes:
        requests: what each needs, engine units.
        selector: labels that their nodes must have.
        tolerations: taints that they endure.
        count: how many they are.

    """

    requests: Amounts
    selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    count: int = 1


@dataclass(frozen=True, slots=True)
class Pool:
    """Machines that are all alike.

    Attributes:
        name: unique; ties go to the first name.
        replicas: machines that were asked for.
        booting: those of them that take no pods yet.
        most: the largest number of machines.
        offers: what one machine has for pods, engine units.
        labels: of its node.
        taints: of its node.

    """

    name: str
    replicas: int
    booting: int
    most: int
    offers: Amounts
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()

    def takes(self, pod: Demand) -> bool:
        """An empty machine would do for the pod."""
        return (
            all(amount <= self.offers.get(name, 0) for name, amount in pod.requests.items())
            and all(self.labels.get(key) == value for key, value in pod.selector.items())
            and all(_endures(pod.tolerations, taint) for taint in self.taints)
        )


def wanted(gangs: Iterable[Sequence[Demand]], pools: Sequence[Pool]) -> dict[str, int]:
    """Replicas by pool, for pools that should grow.

    Args:
        gangs: for each gang the pods that have no place, who waits longest first.
        pools: machines to choose from.

    """
    planned = {pool.name: 0 for pool in pools}
    machines = [_Machine(pool, dict(pool.offers)) for pool in pools for _ in range(min(pool.booting, MOST_MACHINES))]
    for gang in gangs:
        trial = _Trial(pools, machines, planned)
        # The largest pods first: small ones fit in between.
        if all(trial.place(pods) for pods in _joined(sorted(gang, key=_size, reverse=True))):
            machines, planned = trial.machines, trial.planned
    return {pool.name: pool.replicas + planned[pool.name] for pool in pools if planned[pool.name]}


@dataclass(slots=True)
class _Machine:
    pool: Pool
    free: dict[str, int]

    def take(self, pods: Demand, wanted: int) -> int:
        """Take as many of the pods as there is room for, up to ``wanted``; answers how many."""
        if not self.pool.takes(pods):
            return 0
        asked = {name: amount for name, amount in pods.requests.items() if amount > 0}
        taken = min([wanted, *(self.free.get(name, 0) // amount for name, amount in asked.items())])
        for name, amount in asked.items():
            self.free[name] = self.free.get(name, 0) - taken * amount
        return taken


class _Trial:
    """What would be if one more gang were served."""

    def __init__(self, pools: Sequence[Pool], machines: Sequence[_Machine], planned: Mapping[str, int]) -> None:
        self._pools = sorted(pools, key=lambda pool: (_waste(pool), pool.name))
        self.machines = [_Machine(each.pool, dict(each.free)) for each in machines]
        self.planned = dict(planned)
        self._tries = 0

    def place(self, pods: Demand) -> bool:
        left = pods.count
        for machine in self.machines:
            if not left:
                return True
            if self._is_too_much():
                return False
            left -= machine.take(pods, left)
        for pool in self._pools:
            if not pool.takes(pods):
                continue
            most = min(pool.most - pool.replicas, MOST_MACHINES)
            while left and self.planned[pool.name] < most:
                if self._is_too_much():
                    return False
                machine = _Machine(pool, dict(pool.offers))
                left -= machine.take(pods, left)
                self.machines.append(machine)
                self.planned[pool.name] += 1
        return not left

    def _is_too_much(self) -> bool:
        self._tries += 1
        return self._tries > MOST_TRIES


def _joined(pods: Iterable[Demand]) -> Iterator[Demand]:
    """Neighbours that are alike as one."""
    for first, same in groupby(pods, key=lambda each: replace(each, count=1)):
        yield replace(first, count=sum(each.count for each in same))


def _waste(pool: Pool) -> tuple[int, int]:
    """Machines with devices come last for pods that ask for none, and small ones come first."""
    devices = sum(1 for name in pool.offers if name not in ("cpu", "memory", "pods", "ephemeral-storage"))
    return devices, pool.offers.get("cpu", 0)


def _size(pod: Demand) -> tuple[tuple[str, int], ...]:
    rest = sorted((name, amount) for name, amount in pod.requests.items() if name not in ("cpu", "memory"))
    return (*rest, ("cpu", pod.requests.get("cpu", 0)), ("memory", pod.requests.get("memory", 0)))


def _endures(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    if taint.effect == "PreferNoSchedule":
        return True
    return any(
        (not each.effect or each.effect == taint.effect)
        and (not each.key or each.key == taint.key)
        and (each.operator == "Exists" or (each.key and (each.value or "") == (taint.value or "")))
        for each in tolerations
    )
