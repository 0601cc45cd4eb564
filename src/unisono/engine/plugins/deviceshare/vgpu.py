"""``volcano.sh/vgpu-*``: cards shared by memory and cores, or cut into MIG instances, as HAMi's device plugin does.

A node lists its cards in an annotation; a pod is told its cards in one, per container.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from unisono.api import keys
from unisono.cluster.nodes import NodeFacts
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.engine.answers import Reason
from unisono.engine.plugins.deviceshare import mig
from unisono.engine.plugins.deviceshare.exclusive import Rules
from unisono.engine.plugins.deviceshare.model import Card, Hold, Holds, NodeCards, Order, Part, amounts, asks, whole
from unisono.engine.verdict import Cause

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
            known = card.uuid not in unwanted and (not wanted or card.uuid in wanted)
            allowed.append(right and known)
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
        return {
            NODE: node,
            TIME: seconds,
            IDS: text,
            TO_ALLOCATE: text,
            BIND_PHASE: "allocating",
            BIND_TIME: seconds,
        }


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
    found = _INSTANCE.fullmatch(share[0])
    slot = (int(found["group"]), int(found["position"])) if found else None
    card = index.get(found["uuid"] if found else share[0])
    if card is None:
        return None
    if not cards.geometries:
        slot = None
    return Hold(card, int(share[2]), int(share[3]), slot=slot)
