"""Empty nodes wait for pods that replace lost ones of running gangs, and for nobody else."""

from __future__ import annotations

from typing import Any

import pytest
from eviction_world import Plane

from support.build import gang, group, node, pod, queue
from unisono.api.annotations import HOT_SPARES
from unisono.api.queues import mistakes
from unisono.engine.config_file.reader import default_config
from unisono.engine.plugins.hot_spares import RETURN_SECONDS

GPU = "nvidia.com/gpu"


def training(spares: str = "1", **more: Any) -> Any:
    made = queue("training", **more)
    made.metadata.annotations = {HOT_SPARES: spares} if spares else None
    return made


def card(name: str, job: str, at: str = "") -> Any:
    return pod(name, job, node=at or None, gpu=8)


def plane(*things: Any, spares: str = "1", nodes: int = 4) -> Plane:
    """A gang of two on the first two of some nodes with eight GPUs each."""
    made = Plane(
        default_config(),
        training(spares),
        queue("other"),
        *(node(f"n{at}", cpu=8, gpu=8) for at in range(nodes)),
        node("cpus", cpu=8),
        group("a", 2, queue="training", phase="Running"),
        card("a-0", "a", "n0"),
        card("a-1", "a", "n1"),
        *things,
    )
    made.cycle()
    return made


def lose(made: Plane, *names: str) -> None:
    for name in names:
        made.drop(f"ns/{name}")
        made.put(card(name, "a"))


def where(made: Plane, job: str) -> dict[str, str]:
    found = {each.metadata.name: each.spec.node_name for each in made.pods() if each.metadata.name.startswith(job)}
    return {name: on for name, on in found.items() if on}


@pytest.mark.parametrize("who", ["training", "other"])
@pytest.mark.parametrize(("spares", "starts"), [("1", 1), ("2", 0), ("", 2), ("0", 2)])
def test_jobs_that_start_leave_the_spare_nodes_alone(who: str, spares: str, starts: int) -> None:
    made = plane(spares=spares)
    for name in ("b", "c"):
        made.put(group(name, 1, queue=who))
        made.put(card(f"{name}-0", name))
    made.put(group("small", 1, queue=who))
    made.put(pod("small-0", "small", cpu=1))
    decisions = made.settle()
    assert len({**where(made, "b"), **where(made, "c")}) == starts
    assert where(made, "small")
    waits = [verdict for key, verdict in decisions.verdicts.items() if key in ("ns/b", "ns/c")]
    assert all("kept as spares of queue training" in verdict.message for verdict in waits)


@pytest.mark.parametrize("lost", [("a-1",), ("a-0", "a-1")])
def test_pods_of_a_gang_that_ran_whole_get_them_at_once(lost: tuple[str, ...]) -> None:
    """One pod, or all of them where the gang starts again."""
    made = plane(*gang("b", 1, queue="other", gpu=8), nodes=4, spares="1")
    made.settle()
    assert where(made, "b")
    made.put(node("n1", cpu=8, gpu=8, unschedulable=True))
    lose(made, *lost)
    made.settle()
    assert len(where(made, "a")) == 2
    assert "n1" not in where(made, "a").values()


@pytest.mark.parametrize(("later", "starts"), [(RETURN_SECONDS - 1.0, True), (RETURN_SECONDS, False)])
def test_after_a_while_they_are_no_replacements_any_more(later: float, starts: bool) -> None:
    """Another gang of the queue runs on, so that a node is kept."""
    made = plane(group("t", 1, queue="training", phase="Running"), card("t-0", "t", "n2"))
    for name in ("n0", "n1"):
        made.put(node(name, cpu=8, gpu=8, unschedulable=True))
    lose(made, "a-0", "a-1")
    made.cycle()
    made.now += later
    made.put(node("n4", cpu=8, gpu=8))
    made.settle()
    assert len(where(made, "a")) == 2 * starts


def test_a_queue_below_has_the_spares_of_the_one_above() -> None:
    made = plane(queue("team", parent="training"), group("t", 1, queue="team", phase="Running"), card("t-0", "t", "n2"))
    made.drop("ns/t-0")
    made.put(node("n2", cpu=8, gpu=8, unschedulable=True))
    made.put(card("t-0", "t"))
    made.settle()
    assert where(made, "t") == {"t-0": "n3"}


@pytest.mark.parametrize(("text", "refused"), [("2", False), ("0", False), ("two", True), ("-1", True), ("1.5", True)])
def test_numbers_that_cannot_be_read_are_refused(text: str, refused: bool) -> None:
    assert [key for key, _, _ in mistakes({HOT_SPARES: text})] == [HOT_SPARES] * refused
