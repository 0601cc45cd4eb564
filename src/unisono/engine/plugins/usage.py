"""usage: keeps pods off nodes with a high measured load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unisono.api.node_usage import NodeUsage
from unisono.api.quantity import QuantityError, to_int, to_milli
from unisono.api.resources import resource_list
from unisono.cluster.podclass import PodClass
from unisono.cluster.resources import CPU, MEMORY
from unisono.cluster.status import TaskStatus
from unisono.engine.answers import FloatArray, Reason, Veto
from unisono.engine.config.arguments import PERCENT, Argument, Shape, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugins.common.annotations import measured
from unisono.engine.session.node_view import NodeView
from unisono.errors import ConfigError

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState
    from unisono.engine.session.session import Session


# usage: prefers nodes that are idle in fact, and keeps off those that are too busy, by measured load.
#
# Load is averaged over minutes, so what has just been placed is not in it yet: such pods count with an estimate. A node
# whose load has not been measured lately takes pods as if it had none, and gets no points. For pods that ask for GPUs
# the load of the node's GPUs and of their memory counts as well, where it is measured.

# What a pod will use before its load has been measured.


@dataclass(frozen=True, slots=True)
class Estimator:
    """Ratios of the usage plug-in.

    Attributes:
        request_ratio: part of the request that is used.
        burst_ratio: part of what lies between request and limit.
        risk_threshold: load of a node (0 to 1) from which on estimates are multiplied by ``risk_factor``.
        best_effort: (milli-CPU, bytes) of a pod that requests nothing.
    """

    request_ratio: float
    burst_ratio: float
    risk_threshold: float
    risk_factor: float
    best_effort: tuple[int, int]

    def estimate(self, pod_class: PodClass, load: float) -> FloatArray:
        """``[2]`` milli-CPU and bytes on a node with ``load`` (0 to 1): at most the limit."""
        factor = self.risk_factor if load >= self.risk_threshold else 1.0
        if pod_class.best_effort:
            return np.array(self.best_effort, dtype=np.float64) * factor
        limits = limits_of(pod_class)
        return np.array([self._one(pod_class, name, limits, factor) for name in ("cpu", "memory")], dtype=np.float64)

    def _one(self, pod_class: PodClass, name: str, limits: dict[str, int], factor: float) -> float:
        request = pod_class.requests.get(name, 0)
        limit = limits.get(name, 0)
        most = limit if limit >= request and limit > 0 else request
        used = (request * self.request_ratio + (most - request) * self.burst_ratio) * factor
        return min(max(used, 0.0), float(most))


def limits_of(pod_class: PodClass) -> dict[str, int]:
    """Sum of the containers' limits; a resource that a container does not limit has none."""
    total: dict[str, int] = {}
    given = [resource_list(part.limits) if part is not None else {} for part in pod_class.containers]
    for name in ("cpu", "memory"):
        if given and all(name in limits for limits in given):
            total[name] = sum(limits[name] for limits in given)
    return total


CPU_HIGH = Reason("the CPU load of the node exceeds the upper limit.", unresolvable=True, passing=True)
MEMORY_HIGH = Reason("the memory load of the node exceeds the upper limit.", unresolvable=True, passing=True)

GPU_HIGH = Reason("the GPU load of the node exceeds the upper limit.", unresolvable=True, passing=True)
GPU_MEMORY_HIGH = Reason("the GPU memory load of the node exceeds the upper limit.", unresolvable=True, passing=True)

_WEIGHT = Argument("usage.weight", "int", 5, "multiplies the score; negative means 5")
_CPU = Argument("cpu.weight", "int", 1, "weight of cpu; negative means 1")
_MEMORY = Argument("memory.weight", "int", 1, "weight of memory; negative means 1")
_LIMITS = Argument(
    "thresholds",
    "map",
    None,
    "`cpu` and `mem`: percent of load above which a node takes no pod",
    shape=Shape("map", fields=dict.fromkeys(("cpu", "mem", "gpu", "gpumem"), PERCENT)),
)
_CPU_LIMIT = Argument(
    "thresholds.cpu", "int", 80, "percent of cpu load above which a node takes no pod, 0 to 100", shape=PERCENT
)
_MEMORY_LIMIT = Argument("thresholds.mem", "int", 80, "the same for memory", shape=PERCENT)
_GPU_LIMIT = Argument(
    "thresholds.gpu", "int", 100, "of GPU load, for pods that ask for GPUs; 100 is no limit", shape=PERCENT
)
_GPU_MEMORY_LIMIT = Argument("thresholds.gpumem", "int", 100, "the same for GPU memory", shape=PERCENT)
_GPU = Argument("gpu.weight", "int", 1, "weight of GPU load, for pods that ask for GPUs; negative means 1")
_GPU_MEMORY = Argument("gpumem.weight", "int", 1, "the same for GPU memory")
_PART = Shape("float", least=0, most=1)


def _is_quantity(value: object) -> bool:
    try:
        return to_int(str(value)) >= 0
    except QuantityError:
        return False


_QUANTITY = Shape("quantity", right=_is_quantity)
_REQUEST = Argument(
    "estimator.request_ratio", "float", 0.7, "part of its request that a new pod uses, 0 to 1", shape=_PART
)
_BURST = Argument(
    "estimator.burst_ratio", "float", 0.0, "part of what is between request and limit, 0 to 1", shape=_PART
)
_RISK = Argument("estimator.risk_threshold", "float", 0.6, "load from which estimates are raised, 0 to 1", shape=_PART)
_FACTOR = Argument("estimator.risk_factor", "float", 1.2, "by how much; at least 1", shape=Shape("float", least=1))
_BE_CPU = Argument(
    "estimator.be_cpu",
    "quantity",
    "250m",
    "estimate of a pod that requests nothing; a number is milli-cores",
    shape=_QUANTITY,
)
_BE_MEMORY = Argument("estimator.be_mem", "quantity", "200Mi", "the same for memory; a number is MiB", shape=_QUANTITY)
_ESTIMATES = (_REQUEST, _BURST, _RISK, _FACTOR, _BE_CPU, _BE_MEMORY)
_ESTIMATOR = Argument(
    "estimator",
    "map",
    None,
    "the same as a map, as Volcano 1.16 writes it: `{request_ratio: 0.7}`",
    shape=Shape(
        "map", fields={one.key.removeprefix("estimator."): one.shape for one in _ESTIMATES if one.shape is not None}
    ),
)


class UsagePlugin(Plugin):
    """Load-aware filter and score."""

    name = "usage"
    momentary = True
    pure = False
    known_arguments = (
        _WEIGHT,
        _CPU,
        _MEMORY,
        _CPU_LIMIT,
        _MEMORY_LIMIT,
        _GPU_LIMIT,
        _GPU_MEMORY_LIMIT,
        _GPU,
        _GPU_MEMORY,
        _LIMITS,
        *_ESTIMATES,
        _ESTIMATOR,
    )

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        nested: Mapping[str, object] = argument_value(_ESTIMATOR, self.arguments) or {}
        self.arguments = {**self.arguments, **{f"estimator.{key}": value for key, value in nested.items()}}
        self.weight = self._within(_WEIGHT, 0, float("inf"))
        self.cpu, self.memory = self._within(_CPU, 0, float("inf")), self._within(_MEMORY, 0, float("inf"))
        self.limits = self._limit(_CPU_LIMIT, "cpu"), self._limit(_MEMORY_LIMIT, "mem")
        self.gpu = self._within(_GPU, 0, float("inf")), self._within(_GPU_MEMORY, 0, float("inf"))
        self.gpu_limits = self._limit(_GPU_LIMIT, "gpu"), self._limit(_GPU_MEMORY_LIMIT, "gpumem")
        self.estimator = Estimator(
            self._within(_REQUEST, 0, 1),
            self._within(_BURST, 0, 1),
            self._within(_RISK, 0, 1),
            self._within(_FACTOR, 1, float("inf")),
            (self._amount(_BE_CPU), self._amount(_BE_MEMORY)),
        )

    def _within(self, argument: Argument, low: float, high: float) -> float:
        value = float(argument_value(argument, self.arguments))
        return value if low <= value <= high else float(argument.default)

    def _limit(self, argument: Argument, key: str) -> float:
        """From ``thresholds.cpu: 80`` or, as Volcano's guide writes it, ``thresholds: {cpu: 80}``."""
        nested: Mapping[str, object] = argument_value(_LIMITS, self.arguments) or {}
        value = nested.get(key, argument_value(argument, self.arguments))
        return float(value) if isinstance(value, int) and 0 <= value <= 100 else float(argument.default)

    def _amount(self, argument: Argument) -> int:
        value = argument_value(argument, self.arguments)
        if isinstance(value, int):
            return value if argument is _BE_CPU else value << 20
        try:
            return to_milli(value) if argument is _BE_CPU else to_int(value)
        except QuantityError as error:
            raise ConfigError(f"{argument.key} must be a quantity such as {argument.default}: {error}") from error

    def open(self, session: Session) -> None:
        """Gather what was measured, and estimate the pods that are too new for it."""
        self.session = session
        nodes = session.nodes
        loads = [measured(session, column) for column in range(nodes.size)]
        self.known = np.array([usage is not None for usage in loads], dtype=np.bool_)
        load = [(usage.cpu, usage.memory) if usage is not None else (0.0, 0.0) for usage in loads]
        self.load = np.array(load, dtype=np.float64).reshape(nodes.size, 2).T
        gpus = [(usage.gpu, usage.gpu_memory) if usage is not None else (None, None) for usage in loads]
        # NaN where it is not measured.
        self.gpu_load = np.array(gpus, dtype=np.float64).reshape(nodes.size, 2).T
        capacity = np.array(nodes.allocatable[[CPU, MEMORY]], dtype=np.float64)
        self.capacity = np.maximum(capacity, 1.0)
        self.shadow = np.zeros((2, nodes.size), dtype=np.float64)
        self._taken: dict[tuple[int, int], list[FloatArray]] = {}
        for column, usage in enumerate(loads):
            for task in self._unseen(column, usage):
                self._cast(column, task)

    def _unseen(self, column: int, usage: NodeUsage | None) -> Sequence[PodClass]:
        if usage is None:
            return ()
        held = self.session.snapshot.tasks_on.get(self.session.snapshot.nodes.names[column], {})
        new = (TaskStatus.ALLOCATED, TaskStatus.BINDING, TaskStatus.BOUND)
        return [
            task.pod_class
            for _, task in sorted(held.items())
            if task.status in new or (task.status is TaskStatus.RUNNING and task.since > usage.time)
        ]

    def _used(self, columns: np.ndarray[tuple[int, ...], np.dtype[np.intp]]) -> FloatArray:
        """``[2, M]`` fractions of cpu and memory in use, estimates included."""
        fraction = self.load[:, columns] / 100.0 + self.shadow[:, columns] / self.capacity[:, columns]
        return np.asarray(np.clip(fraction, 0.0, 1.0), dtype=np.float64)

    def _composite(self, used: FloatArray) -> FloatArray:
        """Weighted mean over cpu and memory; 0 where both weights are."""
        total = self.cpu + self.memory
        return np.asarray((used[0] * self.cpu + used[1] * self.memory) / total if total else used[0] * 0.0)

    # ---- nodes

    def static_filter(self, pod_class: PodClass, nodes: NodeView) -> Sequence[Veto]:
        """Nodes whose measured load is above a threshold."""
        has_usage, load = self.known[nodes.columns], self.load[:, nodes.columns]
        vetoes = [
            Veto(has_usage & (load[0] > self.limits[0]), CPU_HIGH),
            Veto(has_usage & (load[1] > self.limits[1]), MEMORY_HIGH),
        ]
        if _asks_for_gpus(pod_class):
            of_gpus = self.gpu_load[:, nodes.columns]  # comparisons with NaN are false
            vetoes += [
                Veto(of_gpus[0] > self.gpu_limits[0], GPU_HIGH),
                Veto(of_gpus[1] > self.gpu_limits[1], GPU_MEMORY_HIGH),
            ]
        return vetoes

    def score(self, pod_class: PodClass, nodes: NodeView) -> FloatArray | None:
        """100 times the weight on a node without load; 0 where it has not been measured."""
        gpus = _asks_for_gpus(pod_class) and bool(np.isfinite(self.gpu_load).any())
        if not self.weight or not (self.cpu + self.memory + (sum(self.gpu) if gpus else 0.0)):
            return None
        busy = self._composite(self._used(nodes.columns))
        if gpus:
            busy = self._with_gpus(busy, nodes.columns)
        return np.where(self.known[nodes.columns], (1.0 - busy) * 100.0 * self.weight, 0.0)

    def _with_gpus(self, busy: FloatArray, columns: np.ndarray[tuple[int, ...], np.dtype[np.intp]]) -> FloatArray:
        """The weighted mean over cpu, memory, GPUs and their memory, of those that are measured."""
        load = self.gpu_load[:, columns]
        weights = np.where(np.isfinite(load), np.array(self.gpu)[:, None], 0.0)
        fractions = np.clip(np.nan_to_num(load) / 100.0, 0.0, 1.0)
        total = self.cpu + self.memory + weights.sum(axis=0)
        whole = busy * (self.cpu + self.memory) + (weights * fractions).sum(axis=0)
        return np.asarray(np.divide(whole, total, out=np.zeros_like(whole), where=total > 0))

    # ---- estimates

    def _cast(self, column: int, pod_class: PodClass) -> None:
        where = np.array([column], dtype=np.intp)
        risky = float(self._composite(self._used(where))[0])
        amounts = self.estimator.estimate(pod_class, risky)
        self.shadow[:, column] += amounts
        self._taken.setdefault((column, pod_class.id), []).append(amounts)

    def placed(self, job: JobState, pod_class: PodClass, nodes: Sequence[int]) -> None:
        """The pods will use something although it has not been measured yet."""
        for column in nodes:
            if self.known[column]:
                self._cast(column, pod_class)

    def removed(self, job: JobState, pod_class: PodClass, nodes: Sequence[int]) -> None:
        """Take the same amounts back; a pod that was measured leaves its load behind for now."""
        for column in nodes:
            amounts = self._taken.get((column, pod_class.id))
            if amounts:
                self.shadow[:, column] -= amounts.pop()


def _asks_for_gpus(pod_class: PodClass) -> bool:
    return any("gpu" in name.lower() and "/" in name for name in pod_class.requests)
