"""Jobs that are too large for one member, and are divided over several of one network."""

from __future__ import annotations

import msgspec
import pytest
from fleet_world import GPU, fleet, node, template
from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.api.annotations import MEMBER_REASONS, NETWORK
from unisono.api.kind_families import HYPER_JOBS
from unisono.api.kinds import COMMANDS, JOBS, POD_GROUPS, PODS

MESH = {NETWORK: "mesh"}


def task(name, replicas, gpus=1, **more):
    return {"name": name, "replicas": replicas, "template": template(gpus), **more}


async def submit(world, name, tasks, **spec):
    meta = {"name": name, "namespace": "default", "annotations": spec.pop("annotations", {})}
    given = {"queue": "default", "schedulerName": "volcano", "tasks": tasks}
    given["minAvailable"] = sum(each["replicas"] for each in tasks)
    await world.create(JOBS, {"metadata": meta, "spec": {**given, **spec}})


def gpus(world):
    """GPUs that the copies in each member ask for."""
    found = dict.fromkeys(world.members, 0)
    for name, client in world.members.items():
        for job in client.objects(JOBS):
            for each in job.spec.tasks:
                found[name] += each.replicas * int(each.template.spec.containers[0].resources.limits[GPU])
    return found


def reasons(world, name):
    return msgspec.json.decode((world.group(name).metadata.annotations or {})[MEMBER_REASONS])


ARTICLE = [task("ps", 1), task("worker", 8)]


async def test_the_articles_gang_starts_over_both_members_and_ends_as_one():
    async with fleet("gpu1", "gpu2") as world:
        await world.whole("gpu1", [4])
        await world.whole("gpu2", [8])
        for name in ("gpu1", "gpu2"):
            world.join(name, [], **MESH)
        world.start()
        await world.run_whole(10)
        await submit(world, "gang", ARTICLE)
        seen = set()
        for _ in range(30):
            await world.run_whole(1)
            phase = world.hub_client.find(JOBS, "default/gang").status.state.phase
            pods = sum(world.running().values())
            seen.add((phase == "Running", pods))
        assert all(not running or pods == 9 for running, pods in seen)
        assert sum(world.running().values()) == 9
        assert gpus(world)["gpu1"] > 0 < gpus(world)["gpu2"]
        job = world.hub_client.find(JOBS, "default/gang")
        assert (job.status.state.phase, job.status.running) == ("Running", 9)
        assert {name: each.phase for name, each in job.status.task_status_count.items()} == {
            "ps": {"Running": 1},
            "worker": {"Running": 8},
        }
        await world.hub_client.delete(JOBS, "gang", "default")
        for _ in range(2):
            world.hub_client.collect_garbage()
            await world.run_whole(1)
        assert not world.hub_client.objects(HYPER_JOBS)
        assert world.copies() == {"gpu1": [], "gpu2": []}
        await submit(world, "next", ARTICLE)
        await world.run_whole(20)
        assert sum(world.running().values()) == 9


@pytest.mark.parametrize(
    ("more", "labels", "why"),
    [
        ({}, {}, "in no common network"),
        ({"plugins": {"svc": [], "env": []}}, MESH, "job plug-ins (env, svc)"),
        ({"annotations": {"unisono.io/divided": "false"}}, MESH, "unisono.io/divided is false"),
        ({"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}, MESH, "networkTopology"),
        ({"tasks": [task("ps", 1), task("worker", 8, dependsOn={"name": ["ps"]})]}, MESH, "dependsOn"),
    ],
)
async def test_what_keeps_a_job_from_being_divided_is_told(more, labels, why):
    async with fleet("gpu1", "gpu2") as world:
        world.join("gpu1", [node("n", 4)], **labels)
        world.join("gpu2", [node("n", 8)], **labels)
        world.start()
        await world.run(5)
        await submit(world, "gang", **{"tasks": ARTICLE, **more})
        await world.run(60)
        assert not world.hub_client.objects(HYPER_JOBS)
        assert why in reasons(world, "gang")["gpu1, gpu2"]


@pytest.mark.parametrize("tasks", [[task("worker", 8)], [task("ps", 1), task("worker", 7)], [task("worker", 13)]])
async def test_what_a_member_takes_whole_or_none_together_is_not_divided(tasks):
    async with fleet("gpu1", "gpu2") as world:
        world.join("gpu1", [node("n", 4)], **MESH)
        world.join("gpu2", [node("n", 8)], **MESH)
        world.start()
        await world.job("earlier", 6)
        await world.run(5)
        await submit(world, "gang", tasks)
        await world.run(60)
        assert not world.hub_client.objects(HYPER_JOBS)


async def test_a_member_that_refuses_its_part_gives_the_room_of_the_others_back():
    async with fleet("gpu1", "gpu2") as world:
        world.join("gpu1", [node("n", 4)], **MESH)
        world.join("gpu2", [node("n", 8)], **MESH)
        world.refuse("gpu1", "create", "jobs")
        world.start()
        await world.run(5)
        await submit(world, "gang", ARTICLE, annotations={"unisono.io/reserve-timeout": "10s"})
        for _ in range(60):
            await world.run(1)
            world.play()
            assert not any(client.objects(PODS) for client in world.members.values())
        assert world.hub_client.find(JOBS, "default/gang").status.state.phase != "Running"


async def test_a_lost_member_takes_all_parts_back_and_none_runs_twice():
    async with fleet("a", "b", "c") as world:
        for name in "abc":
            world.join(name, [node("n", 4)], **MESH)
        world.start()
        await world.run(5)
        await submit(world, "gang", [task("w", 8)], annotations={"unisono.io/worker-lost-timeout": "20s"})
        await world.run(20)
        await world.tell_running()
        await world.run(5)
        first = gpus(world)
        lost = next(name for name, number in first.items() if number)
        world.lose(lost)
        await world.run(90)
        assert {name: number for name, number in gpus(world).items() if name != lost} == dict.fromkeys(
            set("abc") - {lost}, 4
        )
        world.find(lost)
        await world.run(60)
        assert gpus(world)[lost] == 0


async def test_a_job_that_is_aborted_gives_its_room_back_and_starts_again_when_resumed():
    async with fleet("gpu1", "gpu2") as world:
        world.join("gpu1", [node("n", 4)], **MESH)
        world.join("gpu2", [node("n", 8)], **MESH)
        world.start()
        await world.run(5)
        await submit(world, "gang", ARTICLE)
        await world.run(20)
        assert sum(gpus(world).values()) == 9
        job = world.hub_client.find(JOBS, "default/gang")
        target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "gang", "uid": job.metadata.uid}
        for action, wanted in (("AbortJob", 0), ("ResumeJob", 9)):
            meta = {"name": action.lower(), "namespace": "default"}
            await world.create(COMMANDS, {"metadata": meta, "action": action, "target": target})
            for _ in range(20):
                await world.run(1)
                world.hub_client.collect_garbage()
            assert sum(gpus(world).values()) == wanted
            assert len(world.hub_client.objects(POD_GROUPS)) == (1 if wanted else 0)


@settings(max_examples=12, deadline=None)
@given(data=st.data())
async def test_whatever_fits_as_a_whole_runs(data):
    members = data.draw(
        st.lists(st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=2), min_size=2, max_size=4)
    )
    left, tasks = sorted((size for sizes in members for size in sizes), reverse=True), []
    # Pods that fill some of the nodes: there is a place for each of them.
    for number in range(data.draw(st.integers(1, 3))):
        size = data.draw(st.sampled_from([1, 2, 4]))
        places = sum(each // size for each in left)
        if not places:
            continue
        count = wanted = data.draw(st.integers(1, places))
        for at, free in enumerate(left):
            taken = min(count, free // size)
            left[at] -= taken * size
            count -= taken
        tasks.append(task(f"t{number}", wanted, size))
    if not tasks:
        return
    # Larger pods first, as the sizes are drawn in any order.
    total = sum(
        each["replicas"] * int(each["template"]["spec"]["containers"][0]["resources"]["limits"][GPU]) for each in tasks
    )
    names = [f"m{at}" for at in range(len(members))]
    async with fleet(*names) as world:
        for name, sizes in zip(names, members, strict=True):
            world.join(name, [node(f"n{at}", size) for at, size in enumerate(sizes)], **MESH)
        world.start()
        await world.run(5)
        await submit(world, "gang", tasks)
        await world.run(30)
        assert sum(gpus(world).values()) == total
