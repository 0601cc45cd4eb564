"""Sums over domains that follow placements are those that adding everything up gives."""

from __future__ import annotations

import numpy as np
import pytest
from topology_world import racks, spine

from support.build import cluster
from unisono.cluster.hypertree import Index
from unisono.cluster.resources import Matrix
from unisono.engine.session.followed_sums import FollowedSums
from unisono.engine.session.session import Session


@pytest.mark.parametrize("mem", ["64Gi", f"{2**53}"], ids=["usual", "as large as an amount may be"])
def test_sums_follow_what_is_placed_and_taken_back(mem: str) -> None:
    things = [racks({"a": 9, "b": 7, "c": 20}, mem=mem), spine("s", "a", "b"), spine("t", "s", "c", tier=3)]
    session = Session(cluster(things).snapshot(), 0.0)
    nodes, tree = session.nodes, session.snapshot.hyper_nodes

    def idle(columns: Index) -> Matrix:
        return np.asarray(nodes.allocatable[:, columns] - nodes.used[:, columns])

    followed, random = FollowedSums(session, idle), np.random.default_rng(7)
    for step in range(60):
        number = 30 if step % 20 == 19 else int(random.integers(0, 3))
        for column in random.integers(0, nodes.size, number).tolist():
            session.matrix[session.rows : 2 * session.rows, column] = random.integers(0, 4, session.rows)
            session.touched.append(column)
        now = followed.follow()
        assert (now.values == idle(session.columns)).all()
        assert (now.sums == tree.sums(idle(session.columns))).all()
