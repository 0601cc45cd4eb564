"""What a scheduler decides on the embedded control plane is decided again from its recording, to the last bind."""

from __future__ import annotations

import asyncio
import gzip
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from benchmarks.churn import virtual

from unisono.agent.simulated.nodes import SimulatedNodes
from unisono.agent.simulated.specs import parse_specs
from unisono.api.annotations import RUN_SECONDS
from unisono.api.base import ObjectMeta
from unisono.api.core import Container, PodSpec, PodTemplateSpec, PriorityClass, ResourceRequirements
from unisono.api.groups.batch import Job, JobSpec, LifecyclePolicy, TaskSpec
from unisono.api.groups.scheduling import Queue, QueueSpec
from unisono.api.kinds import JOBS, PRIORITY_CLASSES, QUEUES
from unisono.apiserver.backend import Backend
from unisono.controllers.builtin import builtin_controllers
from unisono.controllers.registry import COMPONENT, all_controllers
from unisono.engine import run
from unisono.engine.config_file.reader import DEFAULT_TEXT, load_config
from unisono.kube.client import Client
from unisono.kube.controller import Manager
from unisono.kube.events import EventRecorder
from unisono.scheduler.recording import Recorder, RecordingFile
from unisono.scheduler.scheduler import Scheduler
from unisono.scheduler.settings import FixedConfig
from unisono.simulator.experiment import read_experiment
from unisono.simulator.replay import replay
from unisono.simulator.world.settings import Settings

CONFIG = DEFAULT_TEXT.replace("allocate, backfill", "allocate, preempt, reclaim, backfill")
NODES = [{"name": "gpu", "count": 6, "capacity": {"cpu": 16, "memory": "64Gi", "nvidia.com/gpu": 4}}]


def _job(number: int) -> Job:
    pods, gpus = 1 + number % 4, 1 + number % 3
    resources = ResourceRequirements(requests={"cpu": "2", "nvidia.com/gpu": gpus}, limits={"nvidia.com/gpu": gpus})
    pod = PodSpec(
        containers=[Container(name="main", image="train", command=["train", "--secret=hidden"], resources=resources)],
        restart_policy="Never",
    )
    meta = ObjectMeta(annotations={RUN_SECONDS: str(20 + 7 * number % 90)})
    task = TaskSpec(name="worker", replicas=pods, template=PodTemplateSpec(metadata=meta, spec=pod))
    spec = JobSpec(
        min_available=pods,
        queue="left" if number % 2 else "right",
        priority_class_name="high" if number % 5 == 4 else None,
        tasks=[task],
        policies=[LifecyclePolicy(event="PodEvicted", action="RestartJob")],
    )
    return Job(metadata=ObjectMeta(name=f"train-{number}", namespace="default"), spec=spec)


async def _live(folder: Path, recorder: Recorder, jobs: int) -> int:
    """Run a control plane on virtual time until all jobs have had their time; answers how many pods were bound."""
    loop: Any = asyncio.get_running_loop()
    clock = virtual.LoopClock(loop, 1_700_000_000.0)
    backend = await Backend.open(folder / "state.db", clock=clock.time, timers=clock)
    loop.busy = lambda: backend.store.statistics()["pending"] > 0
    client: Client = backend.client(field_manager="test")
    events = EventRecorder(client, COMPONENT, clock=clock)
    manager = Manager(backend.client(field_manager=COMPONENT), clock=clock)
    scheduler = Scheduler(
        backend.client(field_manager="scheduler"),
        FixedConfig(load_config(CONFIG)),
        clock,
        decide=partial(run, advice=False),  # on virtual time it takes nine tenths of a processor, and is not replayed
        recorder=recorder,
        seed=3,
    )
    nodes = SimulatedNodes(backend.client(), parse_specs(NODES), clock)
    parts = [manager.run([*all_controllers(events), *builtin_controllers(events)]), scheduler.run(), nodes.run()]
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        await clock.sleep(5)
        for name, weight in (("left", 1), ("right", 2)):
            await client.create(QUEUES, Queue(metadata=ObjectMeta(name=name), spec=QueueSpec(weight=weight)))
        await client.create(PRIORITY_CLASSES, PriorityClass(metadata=ObjectMeta(name="high"), value=1000))
        for number in range(jobs):
            await client.create(JOBS, _job(number))
            await clock.sleep(3 * (number % 4))
        await clock.sleep(300)
        for task in tasks:
            if task.done():
                task.result()
        return scheduler.statistics().binds
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await events.close(timeout=0.0)
        await backend.close()


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    folder = tmp_path_factory.mktemp("plane")
    file = RecordingFile(folder / "live.jsonl")
    try:
        with asyncio.Runner(loop_factory=virtual.VirtualLoop) as runner:
            binds = runner.run(_live(folder, Recorder(file), 20))
    finally:
        file.close()
    return file.path, binds


def test_every_bind_and_every_eviction_comes_again(recording: tuple[Path, int]) -> None:
    path, binds = recording
    found = replay(path)
    assert found.differences == []
    assert found.same_binds == found.binds == binds
    assert found.binds > 40
    assert found.same_evictions == found.evictions > 0
    assert found.cycles > 20


def test_another_configuration_decides_otherwise(recording: tuple[Path, int]) -> None:
    path, _ = recording
    found = replay(path, load_config(DEFAULT_TEXT))
    assert found.evictions > 0
    assert found.same_evictions == 0
    assert any(each.what == "eviction" and each.repeated is None for each in found.differences)


def test_a_recording_holds_no_commands(recording: tuple[Path, int]) -> None:
    path, _ = recording
    text = path.read_text()
    assert "hidden" not in text
    assert json.loads(text.splitlines()[0])["unisono"] == "recording"


def test_a_recording_that_breaks_off_is_read_as_far_as_it_goes(recording: tuple[Path, int], tmp_path: Path) -> None:
    path, _ = recording
    whole = path.read_bytes()
    part = tmp_path / "part.jsonl"
    part.write_bytes(whole[: len(whole) * 2 // 3])
    packed = tmp_path / "part.jsonl.gz"
    all_of_it = gzip.compress(whole)
    packed.write_bytes(all_of_it[: len(all_of_it) * 2 // 3])
    for file in (part, packed):
        found = replay(file)
        assert found.differences == []
        assert 0 < found.cycles < replay(path).cycles


def test_a_recording_is_a_workload_and_a_cluster(recording: tuple[Path, int]) -> None:
    path, _ = recording
    experiment = read_experiment(path, path, None, Settings())
    assert experiment.cluster.gpu_total == 24
    assert {queue.metadata.name for queue in experiment.cluster.queues} >= {"left", "right"}
    jobs = {job.name.rsplit("-", 5)[0]: job for job in experiment.jobs}  # their PodGroups end in a UID
    assert len(jobs) == 20
    gang = jobs["default.train-7"]
    assert (gang.pods, gang.gang, gang.queue, gang.roles[0].gpus, gang.roles[0].cpu_milli) == (4, 4, "left", 2, 2000)
    # Nodes run a pod for the seconds that it asks for; times on the wire are whole seconds.
    assert gang.run_seconds == pytest.approx(20 + 7 * 7 % 90, abs=2)
    assert jobs["default.train-9"].priority == 1000
    run = experiment.run()
    assert all(outcome.state == "completed" for outcome in run.outcomes)
