"""``scale`` of Volcano Jobs: one number in two places, and the gang's minimum below it."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends import OPTIONS, job_body, opened, value
from unisono.api.defaulting.kubeflow import apply_scale, fewest_replicas, settle_replicas
from unisono.api.groups.batch import JobSpec
from unisono.api.kinds import JOBS
from unisono.apiserver.backend import Backend
from unisono.errors import Invalid


def elastic(*replicas: int, least: int, name: str = "j") -> dict[str, Any]:
    """A job of tasks with so many replicas, of which the gang needs ``least``."""
    body = job_body(name)
    task = body["spec"]["tasks"][0]
    body["spec"]["tasks"] = [copy.deepcopy(task) | {"name": f"t{at}", "replicas": n} for at, n in enumerate(replicas)]
    for each in body["spec"]["tasks"]:
        each.pop("minAvailable", None)
    body["spec"]["minAvailable"] = least
    return body


@pytest.fixture
async def backend() -> AsyncIterator[Backend]:
    async with opened() as it:
        yield it


async def scaled(backend: Backend, replicas: int) -> dict[str, Any]:
    await backend.service.patch(
        JOBS, "default", "j", {"spec": {"replicas": replicas}}, "merge", OPTIONS, subresource="scale"
    )
    return value(await backend.service.get(JOBS, "default", "j"))


@pytest.mark.parametrize(
    ("replicas", "least", "to", "after", "refused"),
    [
        ((4,), 2, 8, [8], ""),
        ((4,), 2, 2, [2], ""),
        ((4,), 2, 1, [], "should not be greater than total replicas"),
        ((1, 4), 3, 2, [1, 2], ""),
        ((1, 4), 3, 1, [], "should not be greater than total replicas"),
        ((4,), 4, 6, [6], ""),
        ((4,), 4, 3, [], "'minAvailable' is greater than 'replicas'"),
    ],
    ids=["up", "down", "below the gang", "last task", "last below the gang", "rigid up", "rigid down"],
)
async def test_scale_changes_the_last_task(
    backend: Backend, replicas: tuple[int, ...], least: int, to: int, after: list[int], refused: str
) -> None:
    made = await backend.service.create(JOBS, "default", elastic(*replicas, least=least), OPTIONS)
    assert value(made.object)["spec"]["replicas"] == replicas[-1]
    if refused:
        with pytest.raises(Invalid, match=refused):
            await scaled(backend, to)
        return
    found = await scaled(backend, to)
    assert [task["replicas"] for task in found["spec"]["tasks"]] == after
    assert found["spec"]["replicas"] == to
    assert found["spec"]["minAvailable"] == least


async def test_replicas_of_the_manifest_win_when_it_is_applied_again(backend: Backend) -> None:
    body = elastic(4, least=2)
    await backend.service.create(JOBS, "default", body, OPTIONS)
    await scaled(backend, 8)
    tasks = value(await backend.service.get(JOBS, "default", "j"))["spec"]["tasks"]
    tasks[0]["replicas"] = 5
    await backend.service.patch(JOBS, "default", "j", {"spec": {"tasks": tasks}}, "merge", OPTIONS)
    found = value(await backend.service.get(JOBS, "default", "j"))["spec"]
    assert (found["replicas"], found["tasks"][0]["replicas"]) == (5, 5)


numbers = st.integers(0, 6)
specs = st.builds(
    lambda tasks, least, given: msgspec.convert(
        {
            "tasks": [{"name": f"t{at}", "replicas": n, "minAvailable": min(m, n)} for at, (n, m) in enumerate(tasks)],
            "minAvailable": min(least, sum(n for n, _ in tasks)),
            "replicas": given,
        },
        JobSpec,
    ),
    st.lists(st.tuples(numbers, numbers), min_size=1, max_size=3),
    numbers,
    st.none() | numbers,
)


@given(specs, st.none() | specs)
def test_the_two_numbers_always_agree_and_only_they_change(new: JobSpec, old: JobSpec | None) -> None:
    others = [task.replicas for task in (new.tasks or ())[:-1]]
    offered = {new.replicas, (new.tasks or [])[-1].replicas or 0}
    settle_replicas(new, old)
    assert new.tasks
    assert new.replicas == new.tasks[-1].replicas
    assert new.replicas in offered
    assert [task.replicas for task in new.tasks[:-1]] == others
    again = copy.deepcopy(new)
    settle_replicas(again, new)
    assert again == new


@given(specs)
def test_without_admission_the_gang_keeps_its_minimum(spec: JobSpec) -> None:
    before, least = copy.deepcopy(spec), fewest_replicas(spec)
    apply_scale(spec)
    assert spec.tasks
    if before.replicas is None:
        assert spec == before
        return
    assert spec.tasks[-1].replicas == max(before.replicas, least)
    assert (spec.min_available or 0) <= sum(task.replicas or 0 for task in spec.tasks)
