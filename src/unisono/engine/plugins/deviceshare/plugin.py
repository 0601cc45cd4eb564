"""deviceshare: cards shared by several pods, card by card.

Nodes are refused whose cards are too full one by one, whatever their sum says; the cards chosen leave with the bind as
annotations for the node's device plugin. Whole GPUs (``nvidia.com/gpu``, ``nvidia.com/mig-*`` and other counted
resources) need nothing of this: the engine counts them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from unisono.api import keys
from unisono.cluster.nodes import NodeFacts
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.status import TaskStatus
from unisono.engine.answers import FloatArray, Reason, Scope, Veto
from unisono.engine.config.arguments import Argument, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugins.deviceshare import model as mig
from unisono.engine.plugins.deviceshare.book import DeviceBook, FamilyBook, is_offered
from unisono.engine.plugins.deviceshare.model import (
    KNOWN,
    Card,
    Family,
    Hold,
    Holds,
    NodeCards,
    Order,
    Part,
    amounts,
    asks,
    read_models,
    whole,
)
from unisono.engine.plugins.deviceshare.table import Plan, Rules, read_rules
from unisono.engine.plugins.deviceshare.uniform import AliyunGpuMemory, GpuMemory, GpuMilli, GpuNumber, QGpu
from unisono.engine.session.job_state import JobState
from unisono.engine.session.node_view import NodeView
from unisono.engine.session.session import Session
from unisono.engine.verdict import Cause
from unisono.errors import ConfigError

# ``volcano.sh/vgpu-*``: cards shared by memory and cores, or cut into MIG instances, as HAMi's device plugin does.
#
# A node lists its cards in an annotation; a pod is told its cards in one, per container.

NUMBER, MEMORY, CORES = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores"
PERCENTAGE = "volcano.sh/vgpu-memory-percentage"
REGISTER = "volcano.sh/node-vgpu-register"
IDS, TO_ALLOCATE = "volcano.sh/vgpu-ids-new", "volcano.sh/devices-to-allocate"
NODE, TIME = "volcano.sh/vgpu-node", "volcano.sh/vgpu-time"
BIND_PHASE, BIND_TIME = "volcano.sh/bind-phase", "volcano.sh/bind-time"
MIG = "mig"

_NAMES = frozenset((NUMBER, MEMORY))
_INSTANCE = re.compile(r"(?P<uuid>.*)\[(?P<group>\d+)-(?P<position>\d+)\]")


class VirtualGpus:
    """The family; ``known`` says how models of cards are cut in MIG mode, ``rules`` which pods share no card."""

    name = "vgpu"
    offered = NUMBER
    resource = MEMORY
    order = Order.LAST
    short = Reason("node(s) had no GPU with enough free memory, cores or shares", cause=Cause.NODES_FULL)

    def __init__(self, known: Sequence[mig.Model] = mig.KNOWN, rules: Rules = ()) -> None:
        self.known = known
        self.rules = rules

    def cards(self, facts: NodeFacts) -> NodeCards | None:
        """Cards of annotation ``node-vgpu-register``; a record of fewer than six fields makes the node unknown.

        The last record's mode is the node's; a model that cannot be cut makes it one of shared memory.
        """
        text = facts.annotations.get(REGISTER, "")
        if not text or not all(whole(facts, name) for name in (NUMBER, MEMORY, CORES)):
            return None
        records = [record.split(",") for record in text.split(":") if record.strip()]
        if not records or any(len(record) < 6 for record in records):
            return None
        if not all(record[1].strip().isdigit() and record[2].strip().isdigit() for record in records):
            return None
        cards = tuple(
            Card(record[0], int(record[2]), int(record[1]), record[3], record[4].strip().lower() != "false")
            for record in records
        )
        mode = records[-1][5].strip()
        geometries = tuple(mig.geometry_of(card.model, self.known) for card in cards) if mode == MIG else ()
        if mode == MIG and not any(geometries):
            return NodeCards(cards, "hami-core")
        return NodeCards(cards, mode, geometries)

    def parts(self, pod_class: PodClass) -> tuple[Part, ...]:
        """One part per container that asks: a memory alone means one card, a number alone the cards' whole memory."""
        if not asks(pod_class, _NAMES):
            return ()
        return tuple(part for resources in pod_class.containers if (part := _part(amounts(resources))) is not None)

    def allows(self, pod_class: PodClass, cards: NodeCards) -> Sequence[bool] | None:
        """Cards of the wanted model, identity and mode; a list of what is wanted wins over one of what is not."""
        notes = pod_class.notes
        if not notes:
            return None
        mode = notes.get(keys.VGPU_MODE, "")
        if mode and mode != cards.mode:
            return [False] * len(cards.cards)
        use, no_use = _list(notes, keys.VGPU_USE_TYPE), _list(notes, keys.VGPU_NO_USE_TYPE)
        wanted, unwanted = _list(notes, keys.VGPU_USE_UUID), _list(notes, keys.VGPU_NO_USE_UUID)
        allowed = []
        for card in cards.cards:
            model = card.model.lower()
            right = any(one.lower() in model for one in use) if use else not any(one.lower() in model for one in no_use)
            permitted = card.uuid not in unwanted and (not wanted or card.uuid in wanted)
            allowed.append(right and permitted)
        return allowed

    def held(self, task: Task, cards: NodeCards) -> Holds | None:
        """Containers joined by ``;``, shares of each joined by ``:``, fields by commas."""
        text = task.annotations.get(IDS)
        if text is None:
            return None
        index = {card.uuid: number for number, card in enumerate(cards.cards)}
        containers = []
        for container in text.split(";"):
            shares = [share.split(",") for share in container.split(":") if share.strip()]
            holds = [hold for share in shares if (hold := _hold(share, index, cards)) is not None]
            if holds:
                containers.append(tuple(holds))
        return tuple(containers)

    def annotations(self, task: Task, node: str, cards: NodeCards, holds: Holds, now: float) -> Mapping[str, str]:
        """The cards, and the marks with which the node's device plugin finds the pod."""
        containers = iter(holds)
        texts = []
        for resources in task.pod_class.containers:
            part = next(containers, ()) if _part(amounts(resources)) is not None else ()
            texts.append("".join(_share(cards, hold) for hold in part))
        text = ";".join(texts)
        seconds = str(int(now))
        return {NODE: node, TIME: seconds, IDS: text, TO_ALLOCATE: text, BIND_PHASE: "allocating", BIND_TIME: seconds}


def _part(wanted: Mapping[str, int]) -> Part | None:
    memory, percent = wanted.get(MEMORY, 0), wanted.get(PERCENTAGE, 0)
    number = wanted.get(NUMBER, 0) or int(memory > 0)
    if not number:
        return None
    if not percent and not memory:
        percent = 100
    return Part(number, 0 if percent else memory, percent, wanted.get(CORES, 0))


def _list(notes: Mapping[str, str], key: str) -> list[str]:
    return [part.strip() for part in notes.get(key, "").split(",") if part.strip()]


def _share(cards: NodeCards, hold: Hold) -> str:
    uuid = cards.cards[hold.card].uuid
    if hold.slot is not None:
        uuid = f"{uuid}[{hold.slot[0]}-{hold.slot[1]}]"
    return f"{uuid},NVIDIA,{hold.memory},{hold.cores}:"


def _hold(share: Sequence[str], index: Mapping[str, int], cards: NodeCards) -> Hold | None:
    """One share as `_share` writes it; None for cards that the node does not have (any more)."""
    if len(share) < 4 or not (share[2].isdigit() and share[3].isdigit()):
        return None
    match = _INSTANCE.fullmatch(share[0])
    slot = (int(match["group"]), int(match["position"])) if match else None
    card = index.get(match["uuid"] if match else share[0])
    if card is None:
        return None
    if not cards.geometries:
        slot = None
    return Hold(card, int(share[2]), int(share[3]), slot=slot)


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
        families = (GpuMemory(), VirtualGpus(self._known, self._rules), AliyunGpuMemory(), QGpu(), GpuMilli())
        return [family for family in families if is_offered(family, session)]

    @classmethod
    def used(cls, session: Session) -> bool:
        """Where a pod requests shared cards, or a node offers them."""
        return any(session.registry.find(resource) is not None for resource in _SHARED)

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
