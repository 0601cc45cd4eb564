"""Families whose nodes report a number of equal cards and their sum: GPU memory sharing without a list of cards."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from unisono.api.annotations import CARDS
from unisono.api.core import ResourceRequirements
from unisono.api.keys import GPU_COUNT, GPU_MILLI
from unisono.cluster.nodes import NodeFacts
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.engine.answers import Reason
from unisono.engine.plugins.deviceshare.model import (
    UNSHARED_LIMIT,
    Card,
    Hold,
    Holds,
    NodeCards,
    Order,
    Part,
    amounts,
    asks,
    indices,
    whole,
)
from unisono.engine.verdict import Cause

MEMORY_SHORT = Reason("node(s) had no GPU with enough free memory", cause=Cause.NODES_FULL)
NUMBER_SHORT = Reason("node(s) had too few idle GPUs", cause=Cause.NODES_FULL)


def equal_cards(
    count: int, memory: int, unhealthy: Sequence[int] = (), slots: int = UNSHARED_LIMIT
) -> NodeCards | None:
    """``count`` cards that share ``memory`` evenly; None when there is nothing to share."""
    if count <= 0 or memory <= 0:
        return None
    return NodeCards(tuple(Card("", memory // count, slots, usable=i not in unhealthy) for i in range(count)))


def peak(pod_class: PodClass, name: str) -> int:
    """A pod's amount of a resource: the sum of its containers, or its largest init container."""
    run = sum(amounts(resources).get(name, 0) for resources in pod_class.containers)
    return max([run, *(amounts(resources).get(name, 0) for resources in pod_class.init_containers)])


class _Uniform(ABC):
    """What the families share: any card will do, and one annotation holds the numbers of the pod's cards."""

    name = ""
    offered = ""
    resource = ""
    order = Order.FIRST
    short = MEMORY_SHORT
    key = CARDS
    separator = ","

    def allows(self, pod_class: PodClass, cards: NodeCards) -> Sequence[bool] | None:
        """All cards."""
        return None

    @abstractmethod
    def parts(self, pod_class: PodClass) -> tuple[Part, ...]:
        """See `Family.parts`."""

    def held(self, task: Task, cards: NodeCards) -> Holds | None:
        """The cards of the annotation, each with what the pod asks of one card; parts are joined by ``;``."""
        text = task.annotations.get(self.key)
        groups = [indices(part, self.separator) for part in text.split(";")] if text else [None]
        parts = self.parts(task.pod_class)
        if len(groups) != len(parts):
            return None
        held = []
        for part, group in zip(parts, groups, strict=True):
            if group is None:
                return None
            present = [card for card in group if card < len(cards.cards)]
            held.append(tuple(_hold(part, card, cards) for card in present))
        return tuple(held)

    def annotations(self, task: Task, node: str, cards: NodeCards, holds: Holds, now: float) -> Mapping[str, str]:
        """The numbers of the cards."""
        return {self.key: ";".join(self.separator.join(str(hold.card) for hold in part) for part in holds)}


def _hold(part: Part, card: int, cards: NodeCards) -> Hold:
    memory = cards.cards[card].memory * part.percent // 100 if part.percent else part.memory
    return Hold(card, memory, part.cores, part.whole)


class GpuMemory(_Uniform):
    """``volcano.sh/gpu-memory``: a part of one card (deprecated in Volcano, still in use)."""

    name = "gpu-memory"
    MEMORY, NUMBER = "volcano.sh/gpu-memory", "volcano.sh/gpu-number"
    offered = MEMORY
    resource = MEMORY
    UNHEALTHY, TIME = "volcano.sh/gpu-unhealthy-ids", "volcano.sh/predicate-time"
    key = "volcano.sh/gpu-index"
    _names = frozenset((MEMORY,))

    def cards(self, facts: NodeFacts) -> NodeCards | None:
        """Equal cards, without those of annotation ``gpu-unhealthy-ids``."""
        bad = indices(facts.annotations.get(self.UNHEALTHY)) or []
        return equal_cards(whole(facts, self.NUMBER), whole(facts, self.MEMORY), bad)

    def parts(self, pod_class: PodClass) -> tuple[Part, ...]:
        """The pod's memory on one card."""
        return (Part(memory=peak(pod_class, self.MEMORY)),) if asks(pod_class, self._names) else ()

    def annotations(self, task: Task, node: str, cards: NodeCards, holds: Holds, now: float) -> Mapping[str, str]:
        """The card, and when it was chosen (nanoseconds)."""
        return {**super().annotations(task, node, cards, holds, now), self.TIME: str(int(now * 1e9))}


class GpuNumber(GpuMemory):
    """``volcano.sh/gpu-number``: whole cards (deprecated in Volcano, still in use)."""

    name = "gpu-number"
    resource = GpuMemory.NUMBER
    short = NUMBER_SHORT
    _names = frozenset((GpuMemory.NUMBER,))

    def parts(self, pod_class: PodClass) -> tuple[Part, ...]:
        """So many idle cards."""
        count = peak(pod_class, self.NUMBER) if asks(pod_class, self._names) else 0
        return (Part(count, whole=True),) if count else ()


class AliyunGpuMemory(_Uniform):
    """``aliyun.com/gpu-mem`` on one card, with ``aliyun.com/gpu-core.percentage`` of it where that is asked for."""

    name = "aliyun"
    order = Order.BEST_FIT
    short = Reason("node(s) had no GPU with enough free memory or cores", cause=Cause.NODES_FULL)
    MEMORY, COUNT = "aliyun.com/gpu-mem", "aliyun.com/gpu-count"
    offered = MEMORY
    resource = MEMORY
    CORES = ("aliyun.com/gpu-core.percentage", "aliyun.com/gpu-core")
    key = "ALIYUN_COM_GPU_MEM_IDX"
    _names = frozenset((MEMORY,))

    def cards(self, facts: NodeFacts) -> NodeCards | None:
        """Equal cards: ``gpu-mem`` over ``gpu-count``."""
        return equal_cards(whole(facts, self.COUNT), whole(facts, self.MEMORY))

    def parts(self, pod_class: PodClass) -> tuple[Part, ...]:
        """The pod's memory and cores on one card."""
        if not asks(pod_class, self._names):
            return ()
        cores = max(peak(pod_class, name) for name in self.CORES)
        return (Part(memory=peak(pod_class, self.MEMORY), cores=cores),)

    def annotations(self, task: Task, node: str, cards: NodeCards, holds: Holds, now: float) -> Mapping[str, str]:
        """The card, its memory and the pod's, for the node's device plugin to assign."""
        hold = holds[0][0]
        return {
            self.key: str(hold.card),
            "ALIYUN_COM_GPU_MEM_POD": str(hold.memory),
            "ALIYUN_COM_GPU_MEM_DEV": str(cards.cards[hold.card].memory),
            "ALIYUN_COM_GPU_MEM_ASSIGNED": "false",
            "ALIYUN_COM_GPU_MEM_ASSUME_TIME": str(int(now * 1e9)),
        }


class QGpu(_Uniform):
    """``tke.cloud.tencent.com/qgpu-core`` (percent; hundreds are whole cards) and ``qgpu-memory``, per container."""

    name = "qgpu"
    order = Order.BEST_FIT
    short = Reason("node(s) had no GPU with enough free memory or cores", cause=Cause.NODES_FULL)
    CORES, MEMORY = "tke.cloud.tencent.com/qgpu-core", "tke.cloud.tencent.com/qgpu-memory"
    offered = CORES
    resource = MEMORY
    SHARES = 16
    _names = frozenset((CORES, MEMORY))

    def cards(self, facts: NodeFacts) -> NodeCards | None:
        """Equal cards: one per hundred of ``qgpu-core``, which share ``qgpu-memory``."""
        return equal_cards(whole(facts, self.CORES) // 100, whole(facts, self.MEMORY), slots=self.SHARES)

    def parts(self, pod_class: PodClass) -> tuple[Part, ...]:
        """One part per container: whole cards from 100 cores on, else a share of one card."""
        if not asks(pod_class, self._names):
            return ()
        return tuple(part for resources in pod_class.containers if (part := self._part(resources)) is not None)

    def _part(self, resources: ResourceRequirements | None) -> Part | None:
        requests = amounts(resources)
        cores, memory = requests.get(self.CORES, 0), requests.get(self.MEMORY, 0)
        if cores >= 100:
            return Part(count=-(-cores // 100), percent=100, cores=100, whole=True)
        return Part(memory=memory, cores=cores) if cores or memory else None


class GpuMilli(_Uniform):
    """``alibabacloud.com/gpu-milli``: thousandths of each of ``gpu-count`` cards, as Alibaba's traces state them."""

    name = "gpu-milli"
    order = Order.BEST_FIT
    short = Reason("node(s) had too few GPUs with a large enough free part", cause=Cause.NODES_FULL)
    MILLI, COUNT = GPU_MILLI, GPU_COUNT
    offered = MILLI
    resource = MILLI
    key = "alibabacloud.com/gpu-index"
    separator = "-"
    _names = frozenset((MILLI,))

    def cards(self, facts: NodeFacts) -> NodeCards | None:
        """``gpu-count`` cards of 1000."""
        count = whole(facts, self.COUNT)
        return equal_cards(count, 1000 * count)

    def parts(self, pod_class: PodClass) -> tuple[Part, ...]:
        """``gpu-count`` cards (one when absent) with ``gpu-milli`` free on each."""
        if not asks(pod_class, self._names):
            return ()
        return (Part(count=max(peak(pod_class, self.COUNT), 1), memory=peak(pod_class, self.MILLI)),)
