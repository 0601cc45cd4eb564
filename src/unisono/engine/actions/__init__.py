"""The actions of a cycle, one module each, found by name."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unisono.engine.cycle import Cycle

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


def action(name: str) -> Action:
    """The function that runs an action; KeyError when there is none of that name."""
    run: Action = import_module(_MODULES[name]).run
    return run
