"""Short cuts of built-in plug-ins change no decision: `unisono.engine.contract.accelerated`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from benchmarks.check import life, world
from benchmarks.check.settings import CONFIGS
from hypothesis import given, settings
from hypothesis import strategies as st

from support.examples import examples
from unisono.cluster.interning import SharedObjects
from unisono.cluster.snapshot import Snapshot
from unisono.engine import run
from unisono.engine.config.model import PluginConfig, SchedulerConfig
from unisono.engine.config_file.reader import load_config
from unisono.engine.contract.accelerated import AcceleratedHooks
from unisono.engine.contract.plugin import Plugin
from unisono.engine.decisions import Decisions
from unisono.engine.plugins.registry import create, plugin_names

configurations: dict[str, Any] = dict(CONFIGS)

HEADROOM = {"name": "eviction-guard", "arguments": {"eviction-guard.headroom": 0.2}}
_TIERS = configurations["evict"]["tiers"]
configurations["headroom"] = {
    **configurations["evict"],
    "tiers": [{"plugins": [*_TIERS[0]["plugins"], HEADROOM]}, *_TIERS[1:]],
}

QUESTIONS = [name for name in vars(AcceleratedHooks) if not name.startswith("_") and callable(getattr(Plugin, name))]
REMOTE = "extender"
"""Asks a service."""
ALTERNATIVES = {"proportion", "capacity"}
"""Of these a configuration has one."""


def without_short_cuts(option: PluginConfig) -> type[Plugin]:
    """The built-in class of ``option`` that has its plain hooks only."""
    kind = type(create(option))
    hidden = {name: getattr(Plugin, name) for name in QUESTIONS}
    names = ("pure", "by_shape", "by_rank", "static_by_kin", "moved_by_evictions")
    promises = dict.fromkeys(names, False)
    return type(kind.__name__, (kind,), {**hidden, **promises, "__module__": kind.__module__})


@st.composite
def configs(draw: st.DrawFn) -> SchedulerConfig:
    """A configuration of the random clusters, with more plug-ins in its last tier."""
    config = load_config(json.dumps(configurations[draw(st.sampled_from(sorted(configurations)))]))
    present = {option.name for option in config.plugins}
    free = [name for name in plugin_names() if name not in present | ALTERNATIVES | {REMOTE}]
    more = draw(st.lists(st.sampled_from(free), max_size=6, unique=True))
    if not present & ALTERNATIVES and draw(st.booleans()):
        more.append(draw(st.sampled_from(sorted(ALTERNATIVES))))
    *first, last = config.tiers
    return replace(config, tiers=(*first, (*last, *map(PluginConfig, more))))


def outcome(decisions: Decisions) -> dict[str, Any]:
    """What is done; of several reasons why a job waits, texts may name another one."""
    return {
        "binds": decisions.binds,
        "evictions": decisions.evictions,
        "phases": [(update.key, update.phase) for update in decisions.pod_groups],
        "nominated": [(one.namespace, one.pod, one.nominated_node) for one in decisions.pod_conditions],
        "violations": decisions.violations,
    }


def compared(config: SchedulerConfig) -> Callable[..., Decisions]:
    """Runs each cycle twice, with and without short cuts; each of the two keeps what it remembers between cycles."""
    plain = {option.name: without_short_cuts(option) for option in config.plugins}
    memo = SharedObjects()

    def both(snapshot: Snapshot, _: Any, now: float, seed: int, *, advice: bool) -> Decisions:
        slow = run(replace(snapshot, memo=memo), config, now, seed, plugins=plain, advice=advice)
        fast = run(snapshot, config, now, seed, advice=advice)
        assert outcome(fast) == outcome(slow)
        return fast

    return both


@settings(max_examples=examples(40))
@given(st.integers(0, 100_000), configs())
def test_short_cuts_change_no_decision(seed: int, config: SchedulerConfig) -> None:
    made = world.World(seed)
    one = life.Life(seed, made, made.objects())
    one.decide = compared(config)
    one.run()


def test_a_class_without_short_cuts_implements_its_plain_hooks_only() -> None:
    for name in set(plugin_names()) - {REMOTE}:
        plain = without_short_cuts(PluginConfig(name))
        own = type(create(PluginConfig(name)))
        assert set(plain.implemented) == set(own.implemented) - set(QUESTIONS)
