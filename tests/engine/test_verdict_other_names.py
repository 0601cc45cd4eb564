"""With ``names: namespace`` nobody is told the names of other namespaces' jobs and pods."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.build import GANG, cluster, config, gang, group, node, nodes, pod, priority_class, queue, schedule
from support.examples import examples
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.config_file.reader import load_config
from unisono.engine.decisions import Decisions
from unisono.engine.verdict import Verdict, has_references
from unisono.errors import ConfigError

SILENT = {"verdicts": {"names": "namespace"}}
TIERS = (("priority", "gang", "conformance"), ("drf", "predicates", "proportion", "nodeorder", "binpack"))
CONFIGS = {
    "gang": GANG,
    "shares": config(*TIERS),
    "evicting": config(*TIERS, actions="enqueue, allocate, preempt, reclaim, backfill"),
    "reserving": config(("priority", "gang", "reservation"), ("predicates", "nodeorder")),
}
NAMESPACES = ("secret-a", "secret-b", "secret-c")


def silent(settings: SchedulerConfig) -> SchedulerConfig:
    return replace(settings, action_arguments={**settings.action_arguments, **SILENT})


def hog(namespace: str = "team-b", **more: Any) -> list[Any]:
    return [
        group("hog", 1, namespace=namespace, phase="Running"),
        pod("hog-0", "hog", namespace=namespace, node="n000", **({"cpu": 8} | more)),
    ]


def verdict(settings: SchedulerConfig, *things: Any) -> Verdict:
    return schedule(cluster(*things), settings).verdicts["ns/j"]


def test_a_holder_of_another_namespace_is_counted_without_its_name() -> None:
    things = (nodes(1), hog(), gang("j", 1, cpu=4))
    named, unnamed = verdict(GANG, *things), verdict(silent(GANG), *things)
    assert "team-b/hog holds cpu 8" in named.message
    assert "a job of another namespace holds cpu 8" in unnamed.message
    assert (unnamed.cause, unnamed.need, unnamed.have) == (named.cause, named.need, named.have)
    assert [(one.kind, one.name) for one in unnamed.holders] == [("Job", "another namespace")]


def test_a_holder_of_the_same_namespace_keeps_its_name() -> None:
    things = (nodes(1), hog("ns"), gang("j", 1, cpu=4))
    assert verdict(silent(GANG), *things) == verdict(GANG, *things)


def test_what_only_another_namespace_could_do_is_not_offered() -> None:
    port = [pod("web", namespace="team-b", node="n000", ports=[80], cpu=1)]
    things = (nodes(1), port, gang("j", 1, cpu=1, ports=[80]))
    assert "team-b/web" in str(verdict(GANG, *things))
    unnamed = verdict(silent(GANG), *things)
    assert "team-b" not in str(unnamed)
    assert unnamed.changes
    assert unnamed.suggestion


@pytest.mark.parametrize("namespace", ["2024", "0", "n000", "cpu"])
def test_names_are_hidden_whatever_words_they_are(namespace: str) -> None:
    """Text is rendered from references: no word of a sentence is taken for a name, and no name for a number."""
    things = (nodes(1), hog(namespace), gang("j", 1, cpu=4))
    unnamed = verdict(silent(GANG), *things)
    assert "a job of another namespace holds cpu 8" in unnamed.message
    assert f"{namespace}/" not in str(unnamed).replace("0/1 nodes", "")
    port = pod("secretproject", namespace=namespace, node="n000", ports=[80], cpu=1)
    unnamed = verdict(silent(GANG), nodes(1), port, gang("j", 1, cpu=1, ports=[80]))
    assert "is held by a pod of another namespace on n000" in unnamed.message
    assert "secretproject" not in str(unnamed)


def test_words_with_a_slash_that_name_no_object_stay() -> None:
    things = (node("n000", labels={"team/zone": "a"}), gang("j", 1, cpu=1, selector={"team/zone": "b"}))
    assert verdict(silent(GANG), *things) == verdict(GANG, *things)


def told(decisions: Decisions) -> list[tuple[str, str]]:
    """Whatever is written into a namespace, as text."""
    found = [(key.partition("/")[0], str(one)) for key, one in decisions.verdicts.items()]
    found += [(one.namespace, msgspec.json.encode(one).decode()) for one in decisions.pod_groups]
    return found + [(one.namespace, msgspec.json.encode(one).decode()) for one in decisions.pod_conditions]


def crowd(random: Random) -> list[Any]:
    """A small crowded cluster of three namespaces."""
    things: list[Any] = [priority_class("high", 100), queue("q", capability={"cpu": 6})]
    things += nodes(random.randint(1, 3), cpu=6, gpu=2)
    for number in range(random.randint(2, 7)):
        space = random.choice(NAMESPACES)
        options: dict[str, Any] = {"cpu": random.randint(1, 5), "gpu": random.choice([0, 1, 2])}
        if random.random() < 0.3:
            options["ports"] = [80]
        if random.random() < 0.4:
            name = f"r{number}"
            things.append(group(name, 1, namespace=space, phase="Running", queue=random.choice(["default", "q"])))
            things.append(pod(f"{name}-0", name, namespace=space, node="n000", **options))
        elif random.random() < 0.2:
            things.append(pod(f"alone-{number}", namespace=space, node="n000", scheduler="other", **options))
        else:
            urgent = random.choice(["", "high"])
            where = random.choice(["default", "q"])
            size = random.randint(1, 3)
            things.append(
                gang(f"w{number}", size, namespace=space, queue=where, priority_class=urgent, created=number, **options)
            )
    return things


@pytest.mark.parametrize("name", CONFIGS)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(30))
def test_nothing_that_is_told_names_another_namespace(name: str, seed: int) -> None:
    state = cluster(*crowd(Random(seed)))
    for space, text in told(schedule(state, silent(CONFIGS[name]))):
        assert not [other for other in NAMESPACES if other != space and other in text], text
        assert not has_references(text), text
    assert not [text for _, text in told(schedule(state, CONFIGS[name])) if has_references(text)]


def test_the_setting_is_read_and_checked() -> None:
    text = 'actions: "allocate"\ntiers: []\nconfigurations:\n- name: verdicts\n  arguments:\n    names: %s\n'
    assert not load_config(text % "namespace").names_others
    assert load_config(text % "all").names_others
    with pytest.raises(ConfigError, match="argument names of the verdicts must be all or namespace, not 'none'"):
        load_config(text % "none")
