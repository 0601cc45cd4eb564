"""What the cards of nodes lack for a pod that shares GPUs: a card is too small, too few of them, or too full."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from unisono.api import keys
from unisono.api.messages import counted
from unisono.cluster.podclass import PodClass
from unisono.engine.answers import BoolArray
from unisono.engine.changes import RequestAtMost, listed
from unisono.engine.cycle.context import Cycle
from unisono.engine.plugins.deviceshare.book import DeviceBook, FamilyBook
from unisono.engine.plugins.deviceshare.model import FULL_CORES, Part
from unisono.engine.plugins.deviceshare.plugin import UNSUITABLE
from unisono.engine.plugins.deviceshare.table import CORES, COUNT, MEMORY, CardTable, Ints
from unisono.engine.verdict import reference
from unisono.engine.verdicts.lack import Lack

_CHOICES = frozenset(
    (keys.VGPU_MODE, keys.VGPU_USE_TYPE, keys.VGPU_NO_USE_TYPE, keys.VGPU_USE_UUID, keys.VGPU_NO_USE_UUID)
)
"""Annotations of a pod that choose cards."""
_MOST_MODELS = 4


def card_lacks(cycle: Cycle, pod_class: PodClass, counts: Mapping[str, int]) -> Iterator[Lack]:
    """What the cards lack for pods of a class; ``counts``: nodes by the reason that refuses them."""
    for book in DeviceBook.of(cycle.session).books(pod_class):
        parts = book.family.parts(pod_class)
        if not book.columns or not parts or not (UNSUITABLE.text in counts or book.family.short.text in counts):
            continue
        part = max(parts, key=lambda one: (one.memory, one.percent, one.count))
        usable = _usable(book, pod_class)
        lack = _not_allowed(book, pod_class, usable) or _too_large(cycle, book, part, usable, alone=len(parts) == 1)
        lack = lack or _too_full(cycle, book, part, usable, alone=len(parts) == 1)
        if lack is not None:
            yield lack


def _asked(book: FamilyBook, part: Part) -> str:
    """``aliyun.com/gpu-mem 12 of one card``."""
    cards = "one card" if part.count == 1 else f"each of {counted(part.count, 'card')}"
    if part.memory:
        return f"{book.family.resource} {part.memory} of {cards}"
    return f"{part.percent}% of the memory of {cards}" if part.percent else counted(part.count, "idle card")


def _usable(book: FamilyBook, pod_class: PodClass) -> BoolArray:
    """``[n, C]`` healthy cards that the pod's annotations permit."""
    allowed = book.allowed(pod_class)
    return book.table.usable if allowed is None else book.table.usable & allowed


def _not_allowed(book: FamilyBook, pod_class: PodClass, usable: BoolArray) -> Lack | None:
    """The pod's annotations leave no card of any node."""
    if usable.any() or not book.table.usable.any():
        return None
    notes = listed(tuple(f"{key}={pod_class.notes[key]}" for key in sorted(_CHOICES & pod_class.notes.keys())))
    cards = [card for node in book.table.nodes for card in node.cards]
    models = sorted({card.model for card in cards if card.model and card.usable})[:_MOST_MODELS]
    there = f" (they are {listed(tuple(models))})" if models else ""
    what = f"the pod's annotation {notes} allows none of the cards of any node{there}"
    return Lack(what, f"change or remove the annotation {notes}")


def _too_large(cycle: Cycle, book: FamilyBook, part: Part, usable: BoolArray, *, alone: bool) -> Lack | None:
    """No card is so large, or no node has so many cards."""
    names, table = cycle.session.snapshot.nodes.names, book.table
    memory = np.where(usable, table.memory, 0)
    row, card = np.unravel_index(int(memory.argmax()), memory.shape)
    largest = int(memory[row, card])
    if part.memory > largest:
        what = (
            f"the pod asks for {_asked(book, part)}, and the largest card (of {names[book.columns[row]]}) has {largest}"
        )
        change = RequestAtMost({book.family.resource: largest * 1000}) if alone and largest else None
        return Lack(what, change.text() if change is not None else "ask for less of each card", change)
    if part.cores > FULL_CORES:
        what = f"the pod asks for {part.cores}% of the cores of one card, and a card has {FULL_CORES}%"
        return Lack(what, f"ask for at most {FULL_CORES}% of the cores of each card")
    numbers = usable.sum(axis=1)
    if part.count > numbers.max():
        most = names[book.columns[int(numbers.argmax())]]
        what = f"the pod asks for {_asked(book, part)}, and the most that a node has is {int(numbers.max())} ({most})"
        return Lack(what, "ask for fewer cards")
    return None


def _busy(part: Part, table: CardTable, loads: Ints, usable: BoolArray, free: Ints) -> str:
    """What cards with enough free memory lack: cores, or places for one more pod."""
    roomy = usable & (free >= part.memory)
    cores = int(np.where(roomy, FULL_CORES - loads[CORES], 0).max())
    if part.cores > cores:
        return f"{part.cores}% of its cores, of which cards with so much free have at most {cores}% left"
    if not (roomy & (loads[COUNT] < table.slots)).any():
        return "cards with so much free have as many pods as may share them"
    return "cards with so much free are in use as a whole, or not to be shared with this pod"


def _too_full(cycle: Cycle, book: FamilyBook, part: Part, usable: BoolArray, *, alone: bool) -> Lack | None:
    """Which card comes nearest, and who uses the cards."""
    names, table = cycle.session.snapshot.nodes.names, book.table
    if not part.memory:
        return None
    loads = table.loads(np.arange(len(table.nodes)), future=False)
    free = np.where(usable, table.memory - loads[MEMORY], -1)
    row, card = np.unravel_index(int(free.argmax()), free.shape)
    users = listed(tuple(sorted(reference(key, "pod") for key in book.holds)))
    asked, node = _asked(book, part), names[book.columns[row]]
    if int(free[row, card]) >= part.memory:
        what = f"the pod asks for {asked}, and {_busy(part, table, loads, usable, free)}"
    else:
        most = f"the card with most free (of {node}) has {int(free[row, card])} of {int(table.memory[row, card])}"
        what = f"the pod asks for {asked}, and {most}"
    what, left = f"{what}; in use by {users}" if book.holds else what, int(free[row, card])
    less = alone and part.memory > left >= part.memory // 2
    change = RequestAtMost({book.family.resource: left * 1000}) if less else None
    return Lack(what, "wait until a card has so much free, or ask for less", change)
