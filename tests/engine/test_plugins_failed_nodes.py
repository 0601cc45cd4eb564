"""Pods of a job keep away from nodes that its book says to avoid; all others use them as before."""

from __future__ import annotations

import pytest

from support.build import START, cluster, gang, group, node, placed, pod, schedule
from unisono.api.annotations import FAILED_NODES
from unisono.api.failed_nodes import book_of
from unisono.api.kinds import POD_GROUPS
from unisono.api.times import rfc3339
from unisono.cluster.state import ClusterState
from unisono.engine.config.model import PluginConfig
from unisono.engine.config_file.reader import default_config, load_config
from unisono.engine.plugin_host.tiers import PluginTiers
from unisono.engine.plugins import failed_nodes
from unisono.engine.plugins.failed_nodes import FailedNodesPlugin
from unisono.engine.plugins.registry import find
from unisono.engine.session.session import Session

STRICT = load_config("--volcano-strict=true")
NOW = START + 1000.0


def job(name: str, book: str = "", size: int = 1) -> list[object]:
    things = gang(name, size, cpu=1)
    things[0].metadata.annotations = {FAILED_NODES: book} if book else None
    return things


def entry(name: str, number: float, ago: float = 0.0) -> str:
    return f"{name}={number}@{rfc3339(NOW - ago)}"


def where(decisions: object) -> dict[str, str]:
    return {pod.partition("-")[0]: on for pod, on in placed(decisions).items()}  # type: ignore[arg-type]


def test_the_job_keeps_away_and_others_do_not() -> None:
    """All go to the fuller node, the second one of these."""

    def one(book: str) -> ClusterState:
        taken = [group("r", 1, phase="Running"), pod("r-0", "r", node="n0", cpu=1)]
        return cluster([node("n0", cpu=8), node("n1", cpu=8)], taken, job("a", book))

    for book, config, now, on in (
        (entry("n0", 2), default_config(), NOW, "n1"),
        ("", default_config(), NOW, "n0"),
        (entry("n0", 2, ago=3600.0), default_config(), NOW, "n0"),
        (entry("n0", 2), default_config(), NOW + 3600.0, "n0"),
        (entry("n0", 2), STRICT, NOW, "n0"),
    ):
        assert where(schedule(one(book), config, now=now)) == {"a": on}, (book, now)
    both = cluster([node("n0", cpu=8), node("n1", cpu=1)], job("a", entry("n0", 2)), job("b"), job("c"))
    assert where(schedule(both, default_config(), now=NOW)) == {"a": "n1", "b": "n0", "c": "n0"}


def test_a_job_that_would_fit_nowhere_else_waits_and_says_why() -> None:
    state = cluster([node("n0", cpu=8), node("small", cpu=0)], job("a", entry("n0", 4)))
    decisions = schedule(state, default_config(), now=NOW)
    assert placed(decisions) == {}
    assert f"failed pods of this job lately (annotation {FAILED_NODES})" in decisions.verdicts["ns/a"].message


def test_a_job_that_has_failed_on_every_node_is_itself_to_blame() -> None:
    """One that always fails would else wait for an hour before its third attempt on a single machine."""
    for others in ([], [node("gone", cpu=8, ready=False)], [node("cordoned", cpu=8, unschedulable=True)]):
        state = cluster([node("n0", cpu=8), *others], job("a", entry("n0", 4)))
        assert where(schedule(state, default_config(), now=NOW)) == {"a": "n0"}
    both = f"{entry('n0', 4)},{entry('n1', 2)}"
    assert where(schedule(cluster([node("n0"), node("n1")], job("a", both)), default_config(), now=NOW)).keys() == {"a"}


def test_the_plug_in_is_not_even_opened_where_no_job_that_waits_avoids_a_node() -> None:
    for state, wanted in (
        (cluster([node("n0"), node("n1")], job("a")), False),
        (cluster([node("n0"), node("n1")], job("a", entry("n0", 1))), False),
        (cluster([node("n0"), node("n1")], job("a", entry("gone", 2))), False),
        (cluster([node("n0"), node("n1")], job("a", entry("n0", 2))), True),
    ):
        tiers = PluginTiers(default_config(), find, Session(state.snapshot(), NOW))
        assert any(isinstance(each, FailedNodesPlugin) for each in tiers.plugins()) is wanted


def test_books_that_did_not_change_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    state, read = cluster([node("n0"), node("n1")], job("a", entry("n0", 2)), job("b", entry("n1", 2))), []
    monkeypatch.setattr(failed_nodes, "book_of", lambda text: read.append(text) or book_of(text))
    for number in range(3):
        session = Session(state.snapshot(), NOW + number)
        plugin = FailedNodesPlugin(PluginConfig("failed-nodes"))
        plugin.open(session)
        assert {key: len(found) for key, found in plugin.nodes.items()} == {"ns/a": 1, "ns/b": 1}
    assert len(read) == 2
    state.apply("MODIFIED", POD_GROUPS, group("a", 1, annotations={FAILED_NODES: entry("n1", 4)}))
    plugin.open(Session(state.snapshot(), NOW + 4 * 3600.0))
    assert plugin.nodes == {}
    assert len(read) == 3


def test_jobs_that_avoid_no_node_share_answers() -> None:
    """One book must not cost the whole cluster its short cuts: tables are made for those that avoid nodes apart."""
    many = [job(f"w{number}", size=2) for number in range(6)]
    state = cluster([node("n0", cpu=1), node("n1", cpu=1)], job("a", entry("n0", 2)), *many)
    snapshot = state.snapshot()
    plugin = FailedNodesPlugin(PluginConfig("failed-nodes"))
    session = Session(snapshot, NOW, 0)
    plugin.open(session)
    pod_class = next(iter(snapshot.jobs["ns/a"].pending.values())).pod_class
    told = {}
    for key in ("ns/a", "ns/w0", "ns/w1"):
        session.subject = session.job(key)
        told[key] = plugin.answers_alike(pod_class)
    assert told == {"ns/a": str(snapshot.nodes.index["n0"]), "ns/w0": "", "ns/w1": ""}
