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
    # It tries its plans as verdicts do, so it stands above them.
    "defragment": "unisono.engine.defragmentation",
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
    _run(cycle, name, action(name))


def run_actions(cycle: Cycle) -> None:
    """Run the actions of the configuration, then place what may go over its share where something is left idle."""
    for name in cycle.config.actions:
        run_action(cycle, name)
    if "allocate" in cycle.config.actions:
        from unisono.engine.placement.first_gangs import place_first_gangs

        _run(cycle, "allocate", place_first_gangs)


def _run(cycle: Cycle, name: str, what: Action) -> None:
    cycle.action = name
    mark = cycle.transaction.checkpoint()
    try:
        with cycle.stopwatch.stage(f"actions/{name}"):
            what(cycle)
    except Exception as error:
        cycle.fail(f"action {name}", error)
        try:
            cycle.transaction.rollback(min(mark, cycle.transaction.checkpoint()))
        except Exception as second:  # the invariants are checked against the snapshot, so go on
            cycle.fail(f"undoing action {name}", second)
