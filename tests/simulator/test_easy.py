"""EASY backfill of the engine against a textbook's, on a machine of which only processors count."""

from __future__ import annotations

import heapq
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from support.examples import examples
from unisono.engine.config_file.reader import load_config
from unisono.simulator.clusters import Cluster, make_node
from unisono.simulator.workload.job import Job, Role
from unisono.simulator.world.settings import Settings
from unisono.simulator.world.world import World

PROCESSORS = 16
EASY = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: reservation
    arguments: {reservation.after: 0s}
  - name: gang
- plugins:
  - name: predicates
"""


def textbook(jobs: list[Job], processors: int) -> list[float]:
    """Starts by EASY: first come first served; others may go before the first in line unless that delays it."""
    size = [job.roles[0].cpu_milli // 1000 for job in jobs]
    starts = [0.0] * len(jobs)
    free, coming, line, ends = processors, list(range(len(jobs))), list[int](), list[tuple[float, int]]()

    def expected(number: int, now: float) -> float:
        return max(starts[number] + (jobs[number].estimate or 0.0), now)

    while coming or ends:
        now = min(jobs[coming[0]].submit if coming else float("inf"), ends[0][0] if ends else float("inf"))
        while ends and ends[0][0] <= now:
            free += size[heapq.heappop(ends)[1]]
        while coming and jobs[coming[0]].submit <= now:
            line.append(coming.pop(0))
        spare, shadow = 0, float("inf")
        for number in list(line):
            if number is not line[0] and shadow == float("inf"):
                room = free
                for until, held in sorted((expected(other, now), size[other]) for _, other in ends):
                    room += held
                    if room >= size[line[0]]:
                        shadow, spare = until, room - size[line[0]]
                        break
            in_time = now + (jobs[number].estimate or 0.0) <= shadow
            if size[number] > free or (number is not line[0] and not in_time and size[number] > spare):
                continue
            spare -= 0 if in_time or number is line[0] else size[number]
            free -= size[number]
            starts[number] = now
            heapq.heappush(ends, (now + (jobs[number].run_seconds or 0.0), number))
            line.remove(number)
    return starts


@settings(max_examples=examples(10), deadline=None)
@given(seed=st.integers(0, 10**6), count=st.integers(2, 40), loose=st.booleans())
def test_the_engine_backfills_as_the_textbook_does(seed: int, count: int, loose: bool) -> None:
    """Times are whole seconds, as the start of a pod is; limits are exact, or up to four times too long."""
    draw = Random(seed)
    at, jobs = 0, list[Job]()
    for number in range(count):
        at += draw.randrange(1, 12_000)
        run = draw.randrange(1, 60_000)
        stated = draw.randrange(run, 4 * run) if loose else run
        role = Role(cpu_milli=1000 * draw.choice((1, 1, 2, 3, 4, 8, 13, 16)))
        jobs.append(Job(name=f"j{number:03}", submit=at, run_seconds=run, estimate=stated, roles=(role,)))
    cluster = Cluster((make_node("machine", cpu=PROCESSORS, memory="1Gi"),))
    found = World(cluster, jobs, load_config(EASY), Settings(run_times="estimate")).run()
    assert [round(one.started or 0.0, 2) for one in found.outcomes] == [
        round(start, 2) for start in textbook(jobs, PROCESSORS)
    ]
