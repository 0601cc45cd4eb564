"""The list of attacks: each is a function of a `World`, under the sentence that tells what it does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from benchmarks.tenant.world import World

Attack = Callable[[World], Awaitable[None]]
ATTACKS: dict[str, Attack] = {}
ON_THE_MACHINE: set[str] = set()


def attack(what: str, *, machine: bool = False) -> Callable[[Attack], Attack]:
    """Put an attack into the list; one with ``machine`` needs a node whose pods are processes."""

    def put(function: Attack) -> Attack:
        ATTACKS[what] = function
        if machine:
            ON_THE_MACHINE.add(what)
        return function

    return put
