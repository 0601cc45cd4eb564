"""What nodes lend to offline pods, as the scheduler sees it: only as much as they report, beside native resources."""

from __future__ import annotations

import pytest

from support.build import cluster, config, gang, node, placed, pod, unadvised
from unisono.api.keys import BATCH_CPU, BATCH_MEMORY

SETTINGS = config(("gang",), ("predicates", "nodeorder", "binpack"))
FULL = {"cpu": "8", "mem": "32Gi"}
LENT = {BATCH_CPU: "3000", BATCH_MEMORY: str(8 << 30)}


def offline(number: int, cpu: int = 1000, memory: int = 1 << 30) -> list[object]:
    return gang("off", number, cpu=0, mem=0, **{BATCH_CPU: cpu, BATCH_MEMORY: memory})


@pytest.mark.parametrize(
    ("lent", "asked", "number"),
    [
        (LENT, offline(3), 3),
        # A gang that is larger than what is lent starts no pod.
        (LENT, offline(4), 0),
        (LENT, offline(3, memory=3 << 30), 0),
        ({BATCH_CPU: "3000"}, offline(1), 0),
        ({}, offline(1), 0),
        ({BATCH_CPU: "0", BATCH_MEMORY: "0"}, offline(1), 0),
    ],
)
def test_offline_pods_go_where_nodes_lend(lent: dict[str, str], asked: list[object], number: int) -> None:
    """Online pods hold all native resources of both nodes."""
    full = [pod(f"online-{name}", node=name, **FULL) for name in ("a", "b")]
    found = placed(unadvised(cluster(node("a", **FULL), node("b", **FULL, **lent), full, asked), SETTINGS))
    assert list(found.values()) == ["b"] * number


def test_a_node_that_lends_less_than_it_lent_takes_no_more() -> None:
    held = pod("held", node="b", cpu=0, mem=0, **{BATCH_CPU: 3000, BATCH_MEMORY: 1 << 30})
    less = {BATCH_CPU: "1000", BATCH_MEMORY: str(8 << 30)}
    assert placed(unadvised(cluster(node("b", **FULL, **less), held, offline(1)), SETTINGS)) == {}
