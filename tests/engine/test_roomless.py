"""A demand for which no node has room is known without asking plug-ins, and stays so until something moves."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from support.build import START, cluster, flatten, gang, nodes
from support.examples import examples
from unisono.engine.candidates.table import Roomless, fitting
from unisono.engine.session.node_view import as_slice
from unisono.engine.session.session import Session


@settings(max_examples=examples(60), deadline=None)
@given(seed=st.integers(0, 10**6), steps=st.integers(1, 30))
def test_it_says_what_a_look_at_all_nodes_says(seed: int, steps: int) -> None:
    draw = Random(seed)
    waiting = flatten([gang(f"g{cpu}", 1, cpu=cpu, gpu=gpu) for cpu, gpu in ((1, 1), (2, 1), (4, 2))])
    session = Session(cluster(nodes(3, cpu=8, gpu=3), *waiting).snapshot(), START)
    classes = [next(iter(job.record.pending.values())).pod_class for job in session.active]
    known, placed = Roomless(session), []
    for _ in range(steps):
        if placed and not draw.randrange(3):
            pod_class, column, pipelined = placed.pop(draw.randrange(len(placed)))
            sign = -1
        else:
            pod_class, column, pipelined = draw.choice(classes), draw.randrange(3), not draw.randrange(4)
            placed.append((pod_class, column, pipelined))
            session.pipelining |= pipelined
            sign = 1
        session.matrix[:, column] += sign * session.change_of(pod_class, pipelined=pipelined)
        session.touched.append(column)
        for one in classes:
            for future in (False, True):
                rows = as_slice(one.rows.tolist())
                there = fitting(session.nodes, one, rows, future=future, promises=session.pipelining)
                assert known.covers(one, future=future) is not bool(there.any())
