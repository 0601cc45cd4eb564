"""Taints and tolerations (semantics of kube-scheduler 1.36), and which taints some pod of ours tolerates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from unisono.api.core import Taint, Toleration
from unisono.cluster.podclass import PodClass

_REPELLING = ("NoSchedule", "NoExecute")


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether one toleration covers one taint; an empty key with Exists covers all, with Equal it compares values."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    operator = toleration.operator or "Equal"
    if operator == "Exists":
        return True
    return operator == "Equal" and (toleration.value or "") == (taint.value or "")


def tolerated(taint: Taint, tolerations: Sequence[Toleration]) -> bool:
    """Whether any toleration covers the taint."""
    return any(tolerates(toleration, taint) for toleration in tolerations)


def repels(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> bool:
    """Whether a NoSchedule or NoExecute taint stays untolerated."""
    return any(taint.effect in _REPELLING and not tolerated(taint, tolerations) for taint in taints)


class Tolerance:
    """Which taints some pod tolerates that waits or runs in a queue.

    Pods are counted by the kin of their class, and kins by what they tolerate, of which there are few in any cluster.

    Attributes:
        version: moves when an answer may have changed.
    """

    def __init__(self) -> None:
        self.version = 0
        self._pods: Counter[int] = Counter()
        self._kins: Counter[_Tolerations] = Counter()
        self._tolerations: dict[_Tolerations, Sequence[Toleration]] = {}
        self._answers: dict[_Taints, bool] = {}

    def add(self, pod_class: PodClass) -> None:
        """One more pod; one that tolerates nothing is of no interest."""
        if pod_class.tolerations:
            self._pods[pod_class.kin] += 1
            if self._pods[pod_class.kin] == 1:
                key = _key(pod_class.tolerations)
                self._kins[key] += 1
                if key not in self._tolerations:
                    self._tolerations[key] = pod_class.tolerations
                    self._moved()

    def remove(self, pod_class: PodClass) -> None:
        """One pod less."""
        if pod_class.tolerations:
            self._pods[pod_class.kin] -= 1
            if not self._pods[pod_class.kin]:
                del self._pods[pod_class.kin]
                key = _key(pod_class.tolerations)
                self._kins[key] -= 1
                if not self._kins[key]:
                    del self._kins[key], self._tolerations[key]
                    self._moved()

    def _moved(self) -> None:
        self.version += 1
        self._answers.clear()

    def beside(self, classes: Iterable[PodClass]) -> Tolerance:
        """What is tolerated when there are also pods of these classes."""
        fresh = Tolerance()
        fresh.version = self.version + 1  # sums that were taken with this one do not hold for the other
        fresh._pods, fresh._kins, fresh._tolerations = Counter(self._pods), Counter(self._kins), {**self._tolerations}
        for pod_class in classes:
            fresh.add(pod_class)
        return fresh

    def covers(self, taints: Sequence[Taint]) -> bool:
        """Whether a node with these taints is open to some pod."""
        key = tuple((taint.key, taint.value, taint.effect) for taint in taints)
        covered = self._answers.get(key)
        if covered is None:
            covered = not repels(taints, ()) or any(not repels(taints, each) for each in self._tolerations.values())
            self._answers[key] = covered
        return covered


_Taints = tuple[tuple[str | None, str | None, str | None], ...]
_Tolerations = tuple[tuple[str | None, str | None, str | None, str | None], ...]


def _key(tolerations: Sequence[Toleration]) -> _Tolerations:
    return tuple((each.key, each.operator, each.value, each.effect) for each in tolerations)
