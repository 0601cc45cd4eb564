"""Many tasks that depend on many others cost no more than they are long."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st
from job_world import job, task

from unisono.controllers.job.observed import Tally
from unisono.controllers.job.sync import may_start, present_tasks, ready_tasks, unreachable
from unisono.controllers.job.view import JobView


class Counted(list):
    """Pods that count how often they are walked through."""

    walks = 0

    def __iter__(self):
        self.walks += 1
        return super().__iter__()


@dataclass
class SeenPod:
    task: str
    ready: bool = True
    deleting: bool = False
    marked: bool = False


def test_pods_are_walked_through_once_for_all_tasks():
    first = [task(f"r{at}") for at in range(100)]
    later = [task(f"d{at}", dependsOn={"name": [f"r{other}" for other in range(100)]}) for at in range(100)]
    view = JobView(job(*first, *later, minAvailable=1))
    pods = Counted(SeenPod(f"r{at}") for at in range(100))
    assert len(present_tasks(view, pods)) == 200
    assert pods.walks <= 3


def test_a_long_chain_behind_a_failure_is_blocked_as_a_whole():
    chain = [task("c0"), *(task(f"c{at}", dependsOn={"name": [f"c{at - 1}"]}) for at in range(1, 3000))]
    view = JobView(job(*reversed(chain), minAvailable=1))
    assert len(unreachable(view, Tally(failed=1, tasks={"c0": {"Failed": 1}}))) == 2999


names = st.integers(0, 7)
graphs = st.lists(
    st.tuples(st.lists(names, max_size=4), st.booleans(), st.sampled_from(["", "Failed", "Running"])), max_size=8
)


@given(graphs)
def test_what_never_starts_is_what_its_definition_says(graph):
    tasks, counts = [], {}
    for at, (depends, either, phase) in enumerate(graph):
        wanted = [f"t{other}" for other in depends if other < at]
        tasks.append(task(f"t{at}", dependsOn={"name": wanted, "iteration": "any" if either else "all"}))
        if phase:
            counts[f"t{at}"] = {phase: 1}
    view = JobView(job(*tasks, minAvailable=1))
    blocked = set()
    for each in view.tasks:  # in the order of their dependencies
        lost = [name in blocked or counts.get(name) == {"Failed": 1} for name in each.depends_on]
        if lost and each.name not in counts and (all(lost) if each.any_dependency else any(lost)):
            blocked.add(each.name)
    assert {each.name for each in unreachable(view, Tally(tasks=counts))} == blocked
    ready = ready_tasks(view, [SeenPod(name) for name, phases in counts.items() if phases == {"Running": 1}])
    for each in view.tasks:
        met = [counts.get(name) == {"Running": 1} for name in each.depends_on]
        assert may_start(each, ready) is (not met or (any(met) if each.any_dependency else all(met)))
