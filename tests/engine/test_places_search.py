"""Gangs of pods of several sizes on tight clusters: they start exactly where brute force finds places for all."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.build import cluster, config, group, node, pod, schedule
from support.examples import examples
from unisono.engine.config_file.reader import default_config

Amounts = tuple[int, int]
"""CPUs and GPUs."""
CONFIGURATIONS = {
    "default": default_config(),
    "binpack": config(("priority", "gang"), ("predicates", "nodeorder", "binpack")),
}


class Drawn(NamedTuple):
    """Nodes, and the pods of a gang."""

    nodes: tuple[Amounts, ...]
    pods: tuple[Amounts, ...]


@st.composite
def tight_clusters(draw: st.DrawFn) -> Drawn:
    gpus = draw(st.sampled_from((0, 0, 2)))
    nodes = st.tuples(st.integers(1, 8), st.integers(0, 2 * gpus))
    kinds = st.tuples(st.tuples(st.integers(1, 5), st.integers(0, gpus)), st.integers(1, 4))
    chosen = draw(st.lists(kinds, min_size=2, max_size=3))
    return Drawn(
        tuple(draw(st.lists(nodes, min_size=2, max_size=5))), tuple(each for each, many in chosen for _ in range(many))
    )


def has_packing(drawn: Drawn) -> bool:
    @cache
    def holds(left: tuple[Amounts, ...], at: int) -> bool:
        if at == len(drawn.pods):
            return True
        cpus, gpus = drawn.pods[at]
        rooms = ((number, cpu - cpus, gpu - gpus) for number, (cpu, gpu) in enumerate(left))
        return any(
            holds(tuple(sorted((*left[:number], (cpu, gpu), *left[number + 1 :]))), at + 1)
            for number, cpu, gpu in rooms
            if cpu >= 0 and gpu >= 0
        )

    return holds(tuple(sorted(drawn.nodes)), 0)


def started(drawn: Drawn, name: str) -> bool:
    things = [node(f"n{at}", cpu=cpu, gpu=gpu) for at, (cpu, gpu) in enumerate(drawn.nodes)]
    things.append(group("g", len(drawn.pods)))
    things += [pod(f"g-{at}", group="g", cpu=cpu, gpu=gpu) for at, (cpu, gpu) in enumerate(drawn.pods)]
    decisions = schedule(cluster(*things), CONFIGURATIONS[name])
    assert not decisions.violations and len(decisions.binds) in (0, len(drawn.pods))
    return bool(decisions.binds)


@pytest.mark.parametrize("name", CONFIGURATIONS)
@settings(max_examples=examples(100), deadline=None, derandomize=True)
@given(drawn=tight_clusters())
def test_a_gang_starts_exactly_where_there_is_a_packing(name: str, drawn: Drawn) -> None:
    assert started(drawn, name) == has_packing(drawn)


@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.parametrize(
    "drawn",
    [
        Drawn(((8, 0), (8, 0), (5, 0), (6, 0)), ((4, 0), (4, 0), (4, 0), (4, 0), (5, 0), (2, 0), (2, 0), (2, 0))),
        Drawn(((1, 0), (6, 0), (3, 0), (3, 0), (4, 0)), ((3, 0), (3, 0), (3, 0), (3, 0), (2, 0), (2, 0))),
    ],
)
def test_points_do_not_lead_past_the_only_packing(name: str, drawn: Drawn) -> None:
    assert started(drawn, name)
