"""What the cards of nodes lack for a pod that shares GPUs: a card is too small, too few of them, or too full."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from unisono.cluster.podclass import PodClass
from unisono.engine.changes import RequestAtMost, counted, listed
from unisono.engine.cycle.context import Cycle
from unisono.engine.plugins.deviceshare.book import DeviceBook, FamilyBook
from unisono.engine.plugins.deviceshare.model import Part
from unisono.engine.plugins.deviceshare.plugin import UNSUITABLE
from unisono.engine.plugins.deviceshare.table import MEMORY
from unisono.engine.verdicts.lack import Lack


def card_lacks(cycle: Cycle, pod_class: PodClass, counts: Mapping[str, int]) -> Iterator[Lack]:
    """What the cards lack for pods of a class; ``counts``: nodes by the reason that refuses them."""
    for book in DeviceBook.of(cycle.session).books(pod_class):
        parts = book.family.parts(pod_class)
        if not book.columns or not parts or not (UNSUITABLE.text in counts or book.family.short.text in counts):
            continue
        part = max(parts, key=lambda one: (one.memory, one.percent, one.count))
        lack = _too_large(cycle, book, part, alone=len(parts) == 1) or _too_full(cycle, book, part)
        if lack is not None:
            yield lack


def _asked(book: FamilyBook, part: Part) -> str:
    """``aliyun.com/gpu-mem 12 of one card``."""
    cards = "one card" if part.count == 1 else f"each of {counted(part.count, 'card')}"
    if part.memory:
        return f"{book.family.resource} {part.memory} of {cards}"
    return f"{part.percent}% of the memory of {cards}" if part.percent else counted(part.count, "idle card")


def _too_large(cycle: Cycle, book: FamilyBook, part: Part, *, alone: bool) -> Lack | None:
    """No card is so large, or no node has so many cards."""
    names, table = cycle.session.snapshot.nodes.names, book.table
    memory = np.where(table.usable, table.memory, 0)
    row, card = np.unravel_index(int(memory.argmax()), memory.shape)
    largest = int(memory[row, card])
    if part.memory > largest:
        what = (
            f"the pod asks for {_asked(book, part)}, and the largest card (of {names[book.columns[row]]}) has {largest}"
        )
        change = RequestAtMost({book.family.resource: largest * 1000}) if alone and largest else None
        return Lack(what, change.text() if change is not None else "ask for less of each card", change)
    numbers = table.usable.sum(axis=1)
    if part.count > numbers.max():
        most = names[book.columns[int(numbers.argmax())]]
        what = f"the pod asks for {_asked(book, part)}, and the most that a node has is {int(numbers.max())} ({most})"
        return Lack(what, "ask for fewer cards")
    return None


def _too_full(cycle: Cycle, book: FamilyBook, part: Part) -> Lack | None:
    """Which card comes nearest, and who uses the cards."""
    names, table = cycle.session.snapshot.nodes.names, book.table
    if not part.memory:
        return None
    loads = table.loads(np.arange(len(table.nodes)), future=False)
    free = np.where(table.usable, table.memory - loads[MEMORY], -1)
    row, card = np.unravel_index(int(free.argmax()), free.shape)
    users = listed(tuple(sorted(f"pod {key}" for key in book.holds)))
    asked, node = _asked(book, part), names[book.columns[row]]
    if int(free[row, card]) >= part.memory:
        what = f"the pod asks for {asked}, and cards with so much free have too few free cores or shares"
    else:
        most = f"the card with most free (of {node}) has {int(free[row, card])} of {int(table.memory[row, card])}"
        what = f"the pod asks for {asked}, and {most}"
    return Lack(f"{what}; in use by {users}", "wait until a card has so much free, or ask for less")
