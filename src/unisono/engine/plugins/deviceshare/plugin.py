"""deviceshare: cards shared by several pods, card by card.

Nodes are refused whose cards are too full one by one, whatever their sum says; the cards chosen leave with the bind as
annotations for the node's device plugin. Whole GPUs (``nvidia.com/gpu``, ``nvidia.com/mig-*`` and other counted
resources) need nothing of this: the engine counts them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.status import TaskStatus
from unisono.engine.answers import FloatArray, Reason, Scope, Veto
from unisono.engine.config.arguments import Argument, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugins.deviceshare.book import DeviceBook, FamilyBook, is_offered
from unisono.engine.plugins.deviceshare.exclusive import Rules, read_rules
from unisono.engine.plugins.deviceshare.mig import KNOWN, read_models
from unisono.engine.plugins.deviceshare.model import Family, Order
from unisono.engine.plugins.deviceshare.table import Plan
from unisono.engine.plugins.deviceshare.uniform import AliyunGpuMemory, GpuMemory, GpuMilli, GpuNumber, QGpu
from unisono.engine.plugins.deviceshare.vgpu import VirtualGpus
from unisono.engine.session.job_state import JobState
from unisono.engine.session.node_view import NodeView
from unisono.engine.session.session import Session
from unisono.errors import ConfigError

_SHARING = Argument("deviceshare.GPUSharingEnable", "bool", False, "volcano.sh/gpu-memory, by card")
_NUMBER = Argument("deviceshare.GPUNumberEnable", "bool", False, "volcano.sh/gpu-number, whole cards")
_VGPU = Argument("deviceshare.VGPUEnable", "bool", False, "volcano.sh/vgpu-*, by card or by MIG instance")
_ALIYUN = Argument("deviceshare.AliyunGPUShareEnable", "bool", True, "aliyun.com/gpu-mem, by card")
_QGPU = Argument("deviceshare.QGPUEnable", "bool", True, "tke.cloud.tencent.com/qgpu-*, by card")
_MILLI = Argument("deviceshare.GPUMilliEnable", "bool", True, "alibabacloud.com/gpu-milli, by card")
_AUTO = Argument("deviceshare.AutoEnable", "bool", False, "every family that nodes offer, and nothing without any")
_POLICY = Argument(
    "deviceshare.SchedulePolicy",
    "text",
    "",
    "binpack or spread: order of cards, and what scores",
    choices=("", "binpack", "spread"),
)
_WEIGHT = Argument("deviceshare.ScheduleWeight", "int", 0, "multiplies the score; 0: cards do not influence the choice")
_GEOMETRIES = Argument(
    "deviceshare.KnownGeometries", "list", None, "how MIG cards are cut, instead of what is built in"
)

_EXCLUSIVE = Argument(
    "deviceshare.GPUExclusiveRules", "list", None, "maps of labels; pods that match the same one share no vGPU card"
)


def _ignored(key: str, kind: str, default: object, meaning: str) -> Argument:
    return Argument(f"deviceshare.{key}", kind, default, meaning, effective=False)


_SHARED = tuple(kind.offered for kind in (GpuMemory, VirtualGpus, AliyunGpuMemory, QGpu, GpuMilli))
_POLICIES = {"": None, "binpack": Order.BINPACK, "spread": Order.SPREAD}


class DeviceSharePlugin(Plugin):
    """Filters and scores nodes by their cards, and tells pods which cards they got."""

    name = "deviceshare"
    pure = False
    known_arguments = (
        _SHARING,
        _NUMBER,
        _VGPU,
        _ALIYUN,
        _QGPU,
        _MILLI,
        _AUTO,
        _POLICY,
        _WEIGHT,
        _GEOMETRIES,
        _EXCLUSIVE,
        _ignored("NodeLockEnable", "bool", False, "cards are taken in the scheduler's own books at once"),
        _ignored("KnownGeometriesCMName", "text", "volcano-vgpu-device-config", "see KnownGeometries"),
        _ignored("KnownGeometriesCMNamespace", "text", "kube-system", "see KnownGeometries"),
        _ignored("AscendMindClusterVNPUEnable", "bool", False, "NPUs are counted per node"),
        _ignored("AscendHAMiVNPUEnable", "bool", False, "NPUs are counted per node"),
    )

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        policy = str(self._value(_POLICY))
        if policy not in _POLICIES:
            raise ConfigError(f"{_POLICY.key} must be binpack, spread or empty, not {policy}")
        if self._value(_SHARING) and self._value(_NUMBER):
            raise ConfigError(f"{_SHARING.key} and {_NUMBER.key} cannot both be true; choose one of the two")
        if self._value(_VGPU) and (self._value(_SHARING) or self._value(_NUMBER)):
            raise ConfigError(f"{_VGPU.key} cannot be true together with {_SHARING.key} or {_NUMBER.key}")
        self.policy = policy
        self.weight = int(self._value(_WEIGHT))
        self._known = KNOWN
        given = self._value(_GEOMETRIES)
        if given is not None:
            try:
                self._known = read_models(given)
            except ValueError as error:
                raise ConfigError(f"{_GEOMETRIES.key}: {error}") from error

        self._rules: Rules = ()
        try:
            self._rules = read_rules(self._value(_EXCLUSIVE) or ())
        except ValueError as error:
            raise ConfigError(f"{_EXCLUSIVE.key}: {error}") from error
        if self._rules:
            self.scope = Scope.JOB  # type: ignore[misc]  # labels are those of the job's pods; only where it matters

    def _value(self, argument: Argument) -> Any:
        return argument_value(argument, self.arguments)

    def _families(self) -> list[Family]:
        families: list[tuple[Argument, Family]] = [
            (_SHARING, GpuMemory()),
            (_NUMBER, GpuNumber()),
            (_VGPU, VirtualGpus(self._known, self._rules)),
            (_ALIYUN, AliyunGpuMemory()),
            (_QGPU, QGpu()),
            (_MILLI, GpuMilli()),
        ]
        return [family for argument, family in families if self._value(argument)]

    def _offered(self, session: Session) -> list[Family]:
        """Families of which some node has cards; whole cards of ``volcano.sh/gpu-number`` need no book."""
        if all(session.registry.find(resource) is None for resource in _SHARED):
            return []
        families = (
            GpuMemory(),
            VirtualGpus(self._known, self._rules),
            AliyunGpuMemory(),
            QGpu(),
            GpuMilli(),
        )
        return [family for family in families if is_offered(family, session)]

    def needed(self, session: Session) -> bool:
        """With ``deviceshare.AutoEnable`` only where a node has shared cards."""
        return not self._value(_AUTO) or bool(self._offered(session))

    def open(self, session: Session) -> None:
        """Say which families of resource names are kept by card."""
        self.now = session.now
        self.names = session.snapshot.nodes.names
        self.book = DeviceBook.of(session)
        for family in self._offered(session) if self._value(_AUTO) else self._families():
            self.book.use(family, _POLICIES[self.policy])

    def concerns(self, pod_class: PodClass) -> bool:
        """Pods that ask for a part of a card."""
        return bool(self.book.families(pod_class))

    def is_pure(self, pod_class: PodClass) -> bool:
        """Pods without cards are nothing to this plug-in."""
        return not self.concerns(pod_class)

    # ---- nodes

    def filter(self, pod_class: PodClass, nodes: NodeView) -> Sequence[Veto]:
        """Nodes without such cards, with none that suits, and with none that is free enough."""
        vetoes: list[Veto] = []
        for book in self.book.books(pod_class):
            rows = book.row_of[nodes.columns]
            present = rows >= 0
            vetoes.append(Veto(~present, _absent(book.family.name)))
            if not present.any():
                continue
            suits = present.copy()
            suits[present] = book.could(pod_class)[rows[present]]
            vetoes.append(Veto(present & ~suits, UNSUITABLE))
            full = np.zeros(nodes.size, dtype=np.bool_)
            full[suits] = ~book.takes(pod_class, book.row_of[nodes.columns[suits]], future=nodes.future)
            vetoes.append(Veto(full, book.family.short))
        return vetoes

    def score(self, pod_class: PodClass, nodes: NodeView) -> FloatArray | None:
        """Per taken card, binpack: percent of its memory in use afterwards; spread: 100 where no pod uses it yet."""
        if not self.weight or not self.policy:
            return None
        points = np.zeros(nodes.size, dtype=np.float64)
        for book in self.book.books(pod_class):
            present = book.row_of[nodes.columns] >= 0
            if not present.any():
                continue
            plan = self._plan(book, pod_class, nodes, present)
            each = plan.packed if self.policy == "binpack" else 100.0 * plan.alone
            points[present] += np.where(plan.ok, each, 0.0)
        return np.asarray(self.weight * np.floor(points + 0.5))

    @staticmethod
    def _plan(
        book: FamilyBook, pod_class: PodClass, nodes: NodeView, where: np.ndarray[tuple[int], np.dtype[np.bool_]]
    ) -> Plan:
        return book.plan(pod_class, book.row_of[nodes.columns[where]], future=nodes.future)

    # ---- events

    def moved(
        self, job: JobState, tasks: Sequence[Task], nodes: Sequence[int], before: TaskStatus, after: TaskStatus
    ) -> None:
        """Take cards, give them back, or let them be released."""
        self.book.moved(tasks, nodes, before, after)

    def annotations(self, task: Task, node: int) -> Mapping[str, str] | None:
        """The pod's cards."""
        notes: dict[str, str] = {}
        for book in self.book.books(task.pod_class):
            notes |= book.annotations(task, self.names[node], self.now)
        return notes or None


UNSUITABLE = Reason("node(s) had no GPU that suits the pod, even if idle", unresolvable=True)


@lru_cache
def _absent(family: str) -> Reason:
    return Reason(f"node(s) had no shared GPUs ({family})", unresolvable=True)
