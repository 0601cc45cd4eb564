"""The actions of a cycle, one module each, found by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unisono.engine.cycle.context import Cycle

Action = Callable[["Cycle"], None]

_MODULES = {
    "enqueue": "unisono.engine.actions.enqueue",
    "allocate": "unisono.engine.actions.allocate",
    "backfill": "unisono.engine.actions.backfill",
    "preempt": "unisono.engine.actions.preempt",
    "reclaim": "unisono.engine.actions.reclaim",
    "gangpreempt": "unisono.engine.actions.gangpreempt",
    "gangreclaim": "unisono.engine.actions.gangreclaim",
    "shuffle": "unisono.engine.actions.shuffle",
}


def action_names() -> tuple[str, ...]:
    """Names of the actions that exist."""
    return tuple(_MODULES)


@cache
def action(name: str) -> Action:
    """The function that runs an action; KeyError when there is none of that name."""
    run: Action = import_module(_MODULES[name]).run
    return run


def run_action(cycle: Cycle, name: str) -> None:
    """Run one action; what it had not committed when it failed is taken back."""
    cycle.action = name
    mark = cycle.transaction.checkpoint()
    try:
        with cycle.stopwatch.stage(f"actions/{name}"):
            action(name)(cycle)
    except Exception as error:
        cycle.fail(f"action {name}", error)
        try:
            cycle.transaction.rollback(min(mark, cycle.transaction.checkpoint()))
        except Exception as second:  # the invariants are checked against the snapshot, so go on
            cycle.fail(f"undoing action {name}", second)
