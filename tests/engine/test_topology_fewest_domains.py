"""The order in which a sub-group fills HyperNodes: sorted again only where it may have changed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from topology_world import TOPOLOGY, job, racks, spine, used_racks, wish, world

from support.build import config, unadvised
from support.examples import examples
from unisono.engine.answers import FloatArray
from unisono.engine.plugins.network_topology_aware.fewest_domains import FewestDomains

# Nodes that are less used weigh more than the order of HyperNodes, so tasks go elsewhere than where it begins.
SPREADS = config(
    ("priority", "gang"),
    ("predicates", "nodeorder", "network-topology-aware"),
    arguments={"nodeorder": {"leastrequested.weight": 4}},
)
POINTS = FewestDomains.points
job_shapes = st.tuples(
    st.integers(1, 14),  # size
    st.integers(1, 14),  # minimum
    st.sampled_from([1, 1, 2, 4]),  # cpu
    st.sampled_from([("soft", None), ("hard", 2), ("hard", 3)]),
)
shapes = st.tuples(
    st.lists(st.integers(1, 4), min_size=4, max_size=6),  # nodes of each rack
    st.lists(st.sampled_from([2, 4, 8, 16]), min_size=6, max_size=6),  # CPUs of the nodes of each rack
    st.lists(job_shapes, min_size=1, max_size=4),
)


def build(sizes: list[int], cpus: list[int], jobs: list[Any]) -> list[Any]:
    names = [f"r{number}" for number in range(len(sizes))]
    return [
        [racks({name: size}, cpu=cpu) for name, size, cpu in zip(names, sizes, cpus, strict=False)],
        spine("s0", *names[:2]),
        spine("s1", *names[2:]),
        spine("top", "s0", "s1", tier=3),
        *(
            job(f"j{number}", size, wish(tier, mode=mode), minimum=min(minimum, size), cpu=ask, created=number)
            for number, (size, minimum, ask, (mode, tier)) in enumerate(jobs)
        ),
    ]


def compared(self: FewestDomains) -> FloatArray:
    """The points, which must be those of an order that is sorted now."""
    points = POINTS(self)
    rest = len(self.group.tasks) - sum(self.group.on.values())
    if rest:
        again = FewestDomains(self._session, self._tree, self.group, self.columns, self._leaves, self._codes)
        assert points.tolist() == again._sort(rest).tolist()
    return points


@settings(max_examples=examples(120), deadline=None)
@given(shapes, st.booleans())
@example(([2, 1, 4, 1], [8, 16, 16, 2], [(70, 70, 1, ("soft", None))]), False)  # room for more than is left
def test_an_order_that_is_kept_is_the_one_that_sorting_gives(shape: tuple[Any, ...], spreads: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FewestDomains, "points", compared)
        assert not unadvised(world(*build(*shape)), SPREADS if spreads else TOPOLOGY).violations


def test_a_long_run_is_sorted_only_when_the_order_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    sorts: list[int] = []
    original = FewestDomains._sort

    def counted(self: FewestDomains, rest: int) -> FloatArray:
        sorts.append(rest)
        return original(self, rest)

    monkeypatch.setattr(FewestDomains, "_sort", counted)
    names = [f"r{number}" for number in range(4)]
    things = [racks(dict.fromkeys(names, 8), cpu=8), spine("s", *names), job("j", 200, wish(2), cpu=1)]
    assert used_racks(unadvised(world(*things), TOPOLOGY)) == {"r0": 64, "r1": 64, "r2": 64, "r3": 8}
    assert len(sorts) < 30
