"""What a cycle in which nothing waits does not do, and what sessions share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.build import cluster, config, gang, nodes, queue, schedule
from unisono.cluster.state import ClusterState
from unisono.engine.config.arguments import FLAG_KEYS, Flags
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.config_file.reader import default_config
from unisono.engine.session.domains import Domains
from unisono.engine.session.session import Session

TOPOLOGY = config(("priority", "gang"), ("predicates", "proportion", "nodeorder", "network-topology-aware"))


@pytest.fixture
def laid_out(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What sessions have laid out for all nodes."""
    found: list[str] = []
    matrix, domains = Session.matrix.func, Domains.__init__

    def seen(session: Session) -> object:
        found.append("matrix")
        return matrix(session)

    def begun(one: Domains, *arguments: object) -> None:
        found.append("domains")
        domains(one, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Session.matrix, "func", seen)
    monkeypatch.setattr(Domains, "__init__", begun)
    return found


def running(state: ClusterState) -> ClusterState:
    """The cluster once its gangs have their places."""
    for bind in schedule(state, default_config()).binds:
        state.assume(f"{bind.namespace}/{bind.pod}", bind.node)
    return state


@pytest.mark.parametrize("used", [default_config(), TOPOLOGY], ids=["default", "topology"])
def test_a_cycle_in_which_nothing_waits_looks_at_no_node(used: SchedulerConfig, laid_out: list[str]) -> None:
    state = running(cluster(nodes(3, cpu=8), queue("capped", capability={"cpu": 4}), gang("j", 2)))
    laid_out.clear()
    decisions = schedule(state, used)
    assert not decisions.violations
    assert laid_out == []


@given(st.dictionaries(st.sampled_from(sorted(FLAG_KEYS)), st.booleans()))
def test_equal_switches_are_found_again_by_their_hash(switched: dict[str, bool]) -> None:
    one, other = Flags.from_keys(switched), Flags.from_keys(dict(reversed(switched.items())))
    assert one == other and hash(one) == hash(other)
    changed = Flags.from_keys({**switched, "enableJobOrder": not one.job_order})
    assert changed != one and {one: 1, changed: 2}[other] == 1
    assert "_hash" not in repr(one)
