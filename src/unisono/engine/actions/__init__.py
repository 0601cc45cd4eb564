"""The actions of a cycle, found by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unisono.engine.cycle.context import Cycle

Action = Callable[["Cycle"], None]

_FUNCTIONS = {
    "enqueue": "unisono.engine.actions.enqueue:run",
    "allocate": "unisono.engine.actions.allocate:run",
    "backfill": "unisono.engine.actions.backfill:run",
    "preempt": "unisono.engine.actions.evicting:preempt",
    "reclaim": "unisono.engine.actions.evicting:reclaim",
    "gangpreempt": "unisono.engine.actions.evicting:gangpreempt",
    "gangreclaim": "unisono.engine.actions.evicting:gangreclaim",
    "shuffle": "unisono.engine.actions.shuffle:run",
    # It tries its plans as verdicts do, so it stands above them.
    "defragment": "unisono.engine.defragmentation:run",
}


def action_names() -> tuple[str, ...]:
    """Names of the actions that exist."""
    return tuple(_FUNCTIONS)


@cache
def action(name: str) -> Action:
    """The function that runs an action; KeyError when there is none of that name."""
    module, _, function = _FUNCTIONS[name].partition(":")
    run: Action = getattr(import_module(module), function)
    return run


def run_action(cycle: Cycle, name: str) -> None:
    """Run one action; what it had not committed when it failed is taken back."""
    _run(cycle, name, action(name))


_WITHOUT_JOBS = frozenset({"shuffle"})
"""Actions that look at running pods alone; all others serve jobs that wait."""


def run_actions(cycle: Cycle) -> None:
    """Run the actions of the configuration, then place what may go over its share where something is left idle."""
    waiting = bool(cycle.eligible or cycle.asleep)
    for name in cycle.config.actions:
        _run(cycle, name, action(name) if waiting or name in _WITHOUT_JOBS else _nothing)
    if waiting and "allocate" in cycle.config.actions:
        from unisono.engine.placement.first_gangs import place_first_gangs

        _run(cycle, "allocate", place_first_gangs)


def _nothing(cycle: Cycle) -> None:
    """What an action does for no jobs."""


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
