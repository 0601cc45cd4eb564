"""A built-in plug-in that fails for one pod when it is asked about many at once."""

from __future__ import annotations

import signal

import pytest

from support.build import START, bound_per_job, cluster, config, gang, node
from unisono.cluster.records import Task
from unisono.engine import run
from unisono.engine.decisions import Decisions
from unisono.engine.plugins.service_order import PriorityPlugin

SETTINGS = config(("gang", "priority"), ("predicates", "nodeorder"), actions="enqueue, allocate")


def decide() -> Decisions:
    things = [node("small", cpu=3), gang("a", 4, 1)]
    return run(cluster(things).snapshot(), SETTINGS, START + 1000.0, advice=False)


def test_an_order_that_fails_for_one_pod_puts_that_pod_last(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def task_key(self: PriorityPlugin, task: Task) -> int:
        asked.append(task.name)
        if task.name == "a-w-1":
            raise RuntimeError("broken")
        return -task.priority

    before = decide()
    assert sorted(bind.pod for bind in before.binds) == ["a-w-0", "a-w-1", "a-w-2"]
    monkeypatch.setattr(PriorityPlugin, "task_key", task_key)
    decisions = decide()
    assert sorted(bind.pod for bind in decisions.binds) == ["a-w-0", "a-w-2", "a-w-3"]
    assert [(one.plugin, one.hook, one.subject, one.error) for one in decisions.plugin_failures] == [
        ("priority", "task_key", "pod ns/a-w-1", "RuntimeError: broken")
    ]
    assert asked == ["a-w-0", "a-w-1", "a-w-0", "a-w-1", "a-w-2", "a-w-3"]


def test_an_order_is_asked_once_about_each_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def task_key(self: PriorityPlugin, task: Task) -> int:
        asked.append(task.name)
        return -task.priority

    monkeypatch.setattr(PriorityPlugin, "task_key", task_key)
    assert bound_per_job(decide()) == {"a": 3}
    assert asked == ["a-w-0", "a-w-1", "a-w-2", "a-w-3"]


def test_ctrl_c_in_an_order_ends_a_program_that_does_not_handle_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: PriorityPlugin, task: Task) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(PriorityPlugin, "task_key", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell runs this in background
    try:
        with pytest.raises(KeyboardInterrupt):
            decide()
    finally:
        signal.signal(signal.SIGINT, before)
