"""Plug-ins from outside: the worked example of docs/plugins.md, entry points, failures and the time limit."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from support.build import START, cluster, config, gang, node, nodes, placed, schedule
from unisono import engine
from unisono.engine.changes import UseLabel
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.config_file.reader import load_config
from unisono.engine.contract.plugin import HOOK_FLAGS, Plugin
from unisono.engine.plugins.registry import find
from unisono.engine.verdict import Cause
from unisono.errors import ConfigError
from unisono.plugin import Refusal
from unisono.plugin.testing import World, WrongPlugin, check
from unisono.scheduler.metrics import Metrics

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "plugins.md").read_text(encoding="utf-8")
EXAMPLE, ITS_TEST = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
(SETTINGS,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


class Watch:
    """A clock that plug-ins move."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_worked_example_is_short_and_works(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len([line for line in EXAMPLE.splitlines() if line.strip()]) < 20
    module = ModuleType("company_plugins")
    exec(EXAMPLE, module.__dict__)
    monkeypatch.setitem(sys.modules, "company_plugins", module)
    settings = load_config(SETTINGS)
    assert settings.plugin_time_limit == 0.5
    dear, cheap = node("a", cpu=1, labels={"cost": "9"}), node("b", cpu=1, labels={"cost": "2"})
    kept = node("c", cpu=4, labels={"reserved-for": "x"})
    assert placed(schedule(cluster(dear, cheap, kept, gang("j", 1)), settings)) == {"j-w-0": "b"}
    decisions = schedule(cluster(kept, gang("j", 1)), settings)
    assert decisions.verdicts["ns/j"].message.endswith("0/1 nodes are unavailable: 1 node(s) were reserved for others.")
    assert decisions.verdicts["ns/j"].changes == (UseLabel("reserved-for", "x"),)
    full = schedule(cluster(kept, gang("j", 1, cpu=5)), settings)
    assert not any(isinstance(one, UseLabel) for one in full.verdicts["ns/j"].changes), "tried, and of no use"
    selecting = gang("j", 1, selector={"reserved-for": "x"})
    assert placed(schedule(cluster(kept, selecting), settings)) == {"j-w-0": "c"}


def test_the_test_of_the_worked_example_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    module, test = ModuleType("company_plugins"), ModuleType("test_company_plugins")
    exec(EXAMPLE, module.__dict__)
    monkeypatch.setitem(sys.modules, "company_plugins", module)
    exec(ITS_TEST, test.__dict__)
    ran = [function() for name, function in vars(test).items() if name.startswith("test_")]
    assert len(ran) == 2


@pytest.mark.more
def test_the_worked_example_and_its_test_are_typed(tmp_path: Path) -> None:
    (tmp_path / "company_plugins.py").write_text(EXAMPLE)
    (tmp_path / "test_company_plugins.py").write_text(ITS_TEST)
    words = ["--strict", "--cache-dir", str(tmp_path / "cache"), "company_plugins.py", "test_company_plugins.py"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


class Room(Plugin):
    """Two pods in all."""

    name = "room"
    held = 0

    def allocatable(self, queue: Any, pod_class: Any) -> Refusal | None:
        return Refusal("two pods are enough", Cause.OVER_SHARE) if self.held >= 2 else None

    def placed(self, job: Any, pod_class: Any, nodes: Any) -> None:
        self.held += len(nodes)

    def removed(self, job: Any, pod_class: Any, nodes: Any) -> None:
        self.held -= len(nodes)


def test_a_wrong_short_cut_is_found_and_named() -> None:
    check(Room, worlds=5)
    greedy = type("Greedy", (Room,), {"headroom": lambda self, queue, pod_class: 3})
    with pytest.raises(WrongPlugin, match=r"room: headroom changes decisions, with seed \d+ in this world:\nWorld\(\)"):
        check(greedy)


def test_a_plugin_that_decides_by_chance_or_fails_is_found() -> None:
    turn = iter(range(10**6))
    fickle = type("Fickle", (Plugin,), {"name": "fickle", "job_key": lambda self, job: next(turn) * 7 % 5})
    with pytest.raises(WrongPlugin, match="fickle decides otherwise in the same world"):
        check(fickle)
    failing = type("Failing", (Plugin,), {"name": "failing", "job_key": lambda self, job: 1 / 0})
    with pytest.raises(WrongPlugin, match=r"job_key.*ZeroDivisionError"):
        check(failing)


def test_a_world_goes_on_from_cycle_to_cycle() -> None:
    world = World().node("a", cpu=2).queue("q", capability={"cpu": 1}).job("r", on=["a"]).job("j", pods=2, queue="q")
    first = world.cycle()
    assert first.placed == {}
    assert list(first.waiting) == ["j"]
    assert world.node("b", cpu=1).queue("q").cycle().placed == {"j-0": "a", "j-1": "b"}
    assert world.cycle().placed == {}
    assert ".job('r', pods=1, cpu=1, queue='default', on=['a'])" in str(world)


def test_the_documented_hooks_exist() -> None:
    table = PAGE.split("## The hooks", 1)[1].split("Rules:", 1)[0]
    documented = set(re.findall(r"`(\w+)\(", table))
    assert documented - {"open", "close"} <= set(HOOK_FLAGS)
    assert documented >= {"job_key", "enqueueable", "allocatable", "static_filter", "filter", "score", "victims"}


def test_an_installed_package_registers_a_plugin_by_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "company_cheap.py").write_text(EXAMPLE)
    info = tmp_path / "company_cheap-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: company-cheap\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[unisono.plugins]\ncheap = company_cheap:Cheap\ngang = company_cheap:Cheap\nbroken = company_cheap:Nothing\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    try:
        found = find("cheap")
        assert found is not None
        assert found.__module__ == "company_cheap"
        assert find("gang").__module__ == "unisono.engine.plugins.gang"  # type: ignore[union-attr]
        settings = load_config("actions: allocate\ntiers:\n- plugins:\n  - name: cheap\n    arguments: {x: 1}\n")
        state = cluster(node("a", labels={"cost": "9"}), node("b"), gang("j", 1))
        assert placed(schedule(state, settings)) == {"j-w-0": "b"}
        with pytest.raises(ConfigError, match="plug-in broken cannot be imported"):
            load_config("actions: allocate\ntiers:\n- plugins:\n  - name: broken\n")
    finally:
        sys.modules.pop("company_cheap", None)


def slow(watch: Watch, hook: str, seconds: float, answer: Any) -> type[Plugin]:
    """A plug-in one hook of which takes so long."""

    def method(self: Plugin, *_: Any) -> Any:
        watch.now += seconds
        return answer

    return type("Slow", (Plugin,), {"name": "slow", hook: method})


def run(state: Any, settings: SchedulerConfig, plugin: type[Plugin], watch: Watch) -> Any:
    return engine.run(state.snapshot(), settings, START + 1000.0, plugins={plugin.name: plugin}, monotonic=watch)


@pytest.mark.parametrize(
    ("hook", "answer", "binds"),
    [
        ("job_key", 0, True),
        ("score", None, True),
        ("static_filter", (), False),
        ("ready", True, False),
        ("placed", None, False),
        ("valid", None, False),
    ],
)
def test_a_hook_that_takes_too_long_fails_as_if_it_had_raised(hook: str, answer: Any, binds: bool) -> None:
    watch = Watch()
    state = cluster(nodes(2, cpu=2), gang("a", 2))
    settings = config(("slow", "gang"), ("predicates",))
    decisions = run(state, settings, slow(watch, hook, 2.5, answer), watch)
    assert bool(decisions.binds) is binds
    error = "took 2.5 s of this cycle (its limit is 1 s)"
    assert [(one.hook, one.error) for one in decisions.plugin_failures] == [(hook, f"TooSlow: {error}")]
    if not binds:
        assert error in decisions.verdicts["ns/a"].message
    assert watch.now == 2.5, "it is not asked about the same again"


def test_a_plugin_that_takes_too_long_to_open_is_asked_nothing() -> None:
    watch = Watch()
    decisions = run(cluster(nodes(2), gang("a", 2)), config(("slow", "gang")), slow(watch, "open", 2.5, None), watch)
    assert decisions.plugins_off == ["slow"]
    assert decisions.binds, "it has no hook that may refuse"


def test_the_slowest_question_pays_and_not_the_one_that_comes_last() -> None:
    """One job costs a plug-in nearly all its time; the others are checked and placed all the same."""
    watch = Watch()

    def valid(self: Plugin, job: Any) -> None:
        watch.now += 0.95 if job.name == "heavy" else 0.01

    plugin = type("Slow", (Plugin,), {"name": "slow", "valid": valid})
    state = cluster(nodes(8, cpu=8), gang("heavy", 1), [gang(f"j{at}", 1, created=at) for at in range(20)])
    decisions = run(state, config(("slow", "gang")), plugin, watch)
    assert len({bind.job for bind in decisions.binds} - {"ns/heavy"}) == 20
    assert not decisions.plugin_failures, "the answer about the slowest one was there already"


def test_a_plugin_that_is_slow_again_and_again_is_asked_no_more() -> None:
    watch = Watch()
    state = cluster(nodes(8, cpu=8), [gang(f"j{at}", 1) for at in range(20)])
    decisions = run(state, config(("slow", "gang")), slow(watch, "valid", 1.5, None), watch)
    assert watch.now == 6.0
    assert not decisions.binds
    assert {verdict.cause for verdict in decisions.verdicts.values()} == {Cause.PLUGIN_FAILED}


def test_without_a_clock_nothing_is_measured_and_nobody_is_too_slow() -> None:
    watch = Watch()
    state = cluster(nodes(2, cpu=2), gang("a", 2))
    plugin = slow(watch, "job_key", 100.0, 0)
    decisions = schedule(state, config(("slow", "gang")), plugins={"slow": plugin})
    assert (decisions.seconds, decisions.plugins_off) == ({}, [])


def test_seconds_by_action_and_plugin_reach_the_metrics() -> None:
    watch = Watch()
    state = cluster(nodes(2, cpu=2), gang("a", 2))
    decisions = run(state, config(("slow", "gang"), ("predicates",)), slow(watch, "static_filter", 0.25, ()), watch)
    assert decisions.seconds["actions/allocate"] == 0.25
    assert decisions.seconds["plugins/slow/hooks"] == 0.25
    assert decisions.seconds["plugins/predicates/hooks"] == 0.0
    metrics = Metrics()
    metrics.stages(decisions.seconds)
    metrics.plugin_switched_off("slow")
    value = metrics.registry.get_sample_value
    assert value("volcano_action_scheduling_latency_milliseconds_sum", {"action": "allocate"}) == 250
    labels = {"plugin": "slow", "OnSession": "OnSessionHooks"}
    assert value("volcano_plugin_scheduling_latency_milliseconds_sum", labels) == 250
    assert value("unisono_scheduler_plugins_switched_off_total", {"plugin": "slow"}) == 1


@pytest.mark.parametrize(("text", "limit"), [("", 1.0), ("{timeLimit: 250ms}", 0.25), ("{timeLimit: 1m30s}", 90.0)])
def test_the_time_limit_is_read_from_the_configuration(text: str, limit: float) -> None:
    more = f"configurations:\n- name: plugins\n  arguments: {text}\n" if text else ""
    assert load_config(f"actions: allocate\n{more}").plugin_time_limit == limit


def test_a_mistyped_argument_of_the_plugins_is_named() -> None:
    with pytest.raises(ConfigError, match="unknown argument timelimit of the plug-ins; did you mean timeLimit"):
        load_config("actions: allocate\nconfigurations:\n- name: plugins\n  arguments: {timelimit: 1s}\n")


def test_every_waiting_job_is_told_which_plugins_are_off() -> None:
    def fail(self: Plugin, *_: Any) -> Any:
        raise RuntimeError("broken")

    broken = type("Broken", (Plugin,), {"name": "broken", "open": fail})
    state = cluster(nodes(1, cpu=1), gang("a", 1), gang("b", 3, created=1))
    decisions = schedule(state, config(("gang", "broken"), ("predicates",)), plugins={"broken": broken})
    verdict = decisions.verdicts["ns/b"]
    assert verdict.cause is Cause.TOO_LARGE
    assert verdict.plugins_off == ("broken",)


@pytest.mark.more
def test_the_example_is_typed(tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(EXAMPLE)
    words = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "example.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
