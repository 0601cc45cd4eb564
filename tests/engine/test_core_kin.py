"""Static answers are shared among classes that differ in amounts only; the collector rests while a cycle runs."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import pytest

from support.build import GANG, cluster, config, gang, kind_of, node, nodes, placed, pod, unadvised
from unisono.cluster.podclass import PodClass
from unisono.cluster.state import ClusterState
from unisono.engine.answers import Reason, Veto
from unisono.engine.contract.plugin import Plugin
from unisono.engine.session.node_view import NodeView
from unisono.gc_pauses import collector_paused


class Counting(Plugin):
    """Refuses nodes with a label, and notes how often it was asked."""

    name = "counting"
    asked: ClassVar[int] = 0

    def static_filter(self, pod_class: PodClass, nodes: NodeView) -> Sequence[Veto]:
        type(self).asked += 1
        return [Veto(nodes.label_codes("bad") >= 0, Reason("bad"))]


class CountingKin(Counting):
    """The same, and says that requests do not matter."""

    static_by_kin = True


@pytest.mark.parametrize(("plugin", "asked"), [(Counting, 3), (CountingKin, 1)])
def test_classes_that_differ_in_amounts_share_static_answers(plugin: type[Counting], asked: int) -> None:
    plugin.asked = 0
    state = cluster(node("a", labels={"bad": "yes"}), node("b"), [gang(f"j{cpu}", 1, cpu=cpu) for cpu in (1, 2, 3)])
    decisions = unadvised(state, config(("gang",), ("counting",)), plugins={"counting": plugin})
    assert set(placed(decisions).values()) == {"b"}
    assert plugin.asked == asked


def test_what_makes_kin() -> None:
    state = cluster(
        pod("a", cpu=1),
        pod("b", cpu=2, ports=[80]),
        pod("c", cpu=1, selector={"zone": "a"}),
        nodes(1),
    )
    classes = {name: state.tasks[f"ns/{name}"].pod_class for name in "abc"}
    assert classes["a"] is not classes["b"]
    assert classes["a"].kin == classes["b"].kin
    assert classes["a"].kin != classes["c"].kin


def test_selectors_hold_among_kin_of_other_amounts() -> None:
    state = cluster(
        node("n0", labels={"zone": "a"}),
        node("n1", labels={"zone": "b"}),
        [gang(f"j{cpu}{zone}", 1, cpu=cpu, selector={"zone": zone}) for cpu in (1, 2) for zone in "ab"],
    )
    assert placed(unadvised(state, GANG)) == {"j1a-w-0": "n0", "j1b-w-0": "n1", "j2a-w-0": "n0", "j2b-w-0": "n1"}


def test_the_collector_rests_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    assert gc.isenabled()
    with collector_paused():
        assert not gc.isenabled()
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ValueError, match="anything"), collector_paused():
        raise ValueError("anything")
    assert gc.isenabled()
    seen: list[bool] = []
    monkeypatch.setattr(CountingKin, "open", lambda self, session: seen.append(gc.isenabled()), raising=False)
    run = collector_paused()(partial(unadvised, plugins={"counting": CountingKin}))
    run(cluster(nodes(1), gang("j", 1)), config(("counting",)))
    assert seen[0] is False
    assert gc.isenabled()


def test_a_state_from_lists_is_that_from_events() -> None:
    objects = [*nodes(3, cpu=4), *(pod(f"p{i}", node=f"n00{i % 3}", cpu=1 + i % 2, deleting=i == 4) for i in range(8))]
    events = cluster(*objects)
    late = ClusterState()
    for obj in reversed(objects):
        late.apply("ADDED", kind_of(obj), obj)
    for one, other in zip((events, late), (late, events), strict=True):
        assert (one.snapshot().nodes.used == other.snapshot().nodes.used).all()
        assert (one.snapshot().nodes.releasing == other.snapshot().nodes.releasing).all()
        assert (one.snapshot().nodes.nonzero == other.snapshot().nodes.nonzero).all()
    assert events.snapshot().nodes.used[0].tolist() == [1000 + 2000 + 1000, 2000 + 1000 + 2000, 1000 + 2000]
