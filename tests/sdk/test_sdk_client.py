"""The SDK against a control plane that it starts itself: jobs from submission to their end."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest

from support.plane import wait_until
from unisono.sdk import (
    AlreadyExists,
    AsyncClient,
    BadWork,
    Client,
    Invalid,
    Job,
    JobFailed,
    NoControlPlane,
    NotFound,
    UnisonoError,
    WaitTimeout,
    Where,
)

pytestmark = [pytest.mark.processes, pytest.mark.xdist_group("sdk")]

PATIENCE = 180
SHORT = {"unisono.io/run-seconds": "0"}


def job(name: str, replicas: int = 2, *, cpu: float = 1, exit_code: int = 0, short: bool = True) -> Job:
    annotations = {**SHORT, "unisono.io/exit-code": str(exit_code)} if short else {}
    return Job(name).task("worker", replicas=replicas, command=["true"], cpu=cpu, annotations=annotations)


def test_a_job_is_submitted_watched_and_ends_well(simulated: Client) -> None:
    submitted = simulated.submit(job("first"))
    assert (submitted.name, submitted.namespace, submitted.gang) == ("first", "default", 2)
    phases = [view.phase for view in simulated.watch(submitted)]
    assert phases[0] == "Pending"
    assert phases[-1] == "Completed"
    end = simulated.wait("default/first", timeout=PATIENCE, check=True)
    assert end.succeeded
    assert [(pod.name, pod.exit_code) for pod in end.ends] == [("first-worker-0", 0), ("first-worker-1", 0)]


def test_a_failed_job_raises_only_where_it_is_checked(simulated: Client) -> None:
    failing = simulated.submit(job("failing", exit_code=3))
    end = simulated.wait(failing, timeout=PATIENCE)
    assert (end.phase, end.succeeded) == ("Failed", False)
    with pytest.raises(JobFailed, match="exit code 3") as raised:
        simulated.wait(failing, timeout=PATIENCE, check=True)
    assert raised.value.view.ends == end.ends
    # Of two pods one was the first; what the SDK does on the way says nothing about the caller's program.
    assert re.search(
        r"The job failing failed: worker-[01] failed first: exit code 3; 1 more failed after it", str(raised.value)
    )
    frames = [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert frames == ["test_a_failed_job_raises_only_where_it_is_checked", "wait", "run"]
    assert isinstance(raised.value, UnisonoError)


def test_a_gang_that_does_not_fit_waits_and_explains(simulated: Client) -> None:
    large = simulated.submit(job("large", 3, cpu=4))
    views = simulated.watch(large)
    view = next(view for view in views if view.waiting)
    assert "cpu" in view.waiting
    verdict = simulated.explain(large)
    assert verdict is not None
    assert verdict.tasks_needed == 3
    assert verdict.need["cpu"] == 12_000
    assert verdict.message in str(verdict)
    # A machine that is very busy has not even read the job in that time.
    with pytest.raises(WaitTimeout, match=r"large is still pending|Nothing was heard of the job large") as raised:
        simulated.wait(large, timeout=0.2)
    assert isinstance(raised.value, TimeoutError)
    simulated.delete(large)
    with pytest.raises(NotFound, match='"large" not found'):
        simulated.get(large)


def test_scaling_keeps_a_gang_a_gang(simulated: Client) -> None:
    running = simulated.submit(job("elastic", 2, short=False))
    simulated.wait(running, phase="Running", timeout=PATIENCE)
    bigger = simulated.scale(running, "worker", 3)
    assert (bigger.gang, bigger.tasks[0].wanted) == (3, 3)
    assert simulated.scale(running, "worker", 1).gang == 1
    with pytest.raises(BadWork, match="its tasks are worker"):
        simulated.scale(running, "ps", 1)
    simulated.delete(running)


def test_suspend_resume_and_cancel(simulated: Client) -> None:
    running = simulated.submit(job("steered", short=False))
    simulated.wait(running, phase="Running", timeout=PATIENCE)
    simulated.suspend(running)
    assert simulated.wait(running, timeout=PATIENCE).phase == "Aborted"
    simulated.resume(running)
    # Resumed is not aborted any more; until the order is carried out it still is.
    while simulated.get(running).phase != "Running":
        simulated.wait(running, phase="Running", timeout=PATIENCE)
    simulated.cancel(running)
    assert simulated.wait(running, timeout=PATIENCE).phase == "Terminated"
    simulated.delete(running)


def test_a_job_that_is_deleted_under_a_watch_ends_it(simulated: Client) -> None:
    doomed = simulated.submit(job("doomed", short=False))
    asked = False
    for view in simulated.watch(doomed):
        # It may be seen to run once more while it goes.
        if view.phase == "Running" and not asked:
            asked = True
            simulated.delete(doomed)
    assert view.phase == "Deleted"


QUEUE_AND_JOB = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: research}
spec: {weight: 3, capability: {cpu: 2}}
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {generateName: yaml-}
spec:
  queue: research
  tasks:
    - name: t
      replicas: 1
      template:
        metadata: {annotations: {unisono.io/run-seconds: "0"}}
        spec:
          restartPolicy: Never
          containers: [{name: c, image: busybox, command: ["true"]}]
"""


def test_manifests_bring_their_queues_along_and_lists_filter(simulated: Client, tmp_path: Path) -> None:
    file = tmp_path / "work.yaml"
    file.write_text(QUEUE_AND_JOB)
    # The queue opens a moment after it is made: as a user would, try again.
    first = _when_open(simulated, file)
    assert first.name.startswith("yaml-")
    second = simulated.submit(QUEUE_AND_JOB)
    names = {view.name for view in simulated.list(queue="research")}
    assert names == {first.name, second.name}
    assert {view.queue for view in simulated.list(all_namespaces=True)} >= {"research"}
    for view in (first, second):
        assert simulated.wait(view, timeout=PATIENCE).succeeded
    queue = next(queue for queue in simulated.queues() if queue.name == "research")
    assert (queue.weight, queue.parent, queue.state, queue.capability) == (3, "root", "Open", {"cpu": "2"})


def _when_open(client: Client, file: Path) -> Any:
    def submitted() -> object:
        try:
            return client.submit(file)
        except UnisonoError as error:
            if "Open" not in str(error):
                raise
            return None

    return wait_until("the queue is open", submitted)


def test_what_the_server_refuses_names_the_field(simulated: Client) -> None:
    simulated.submit(job("twice"))
    with pytest.raises(AlreadyExists):
        simulated.submit(job("twice"))
    broken = job("broken").manifest()
    broken["spec"]["tasks"][0]["replica"] = 3
    with pytest.raises(UnisonoError, match="replica"):
        simulated.submit(broken)
    with pytest.raises((Invalid, UnisonoError), match="minAvailable"):
        simulated.submit(Job("toomany", min_available=5).task("t", command=["true"]))


def test_blocking_calls_work_inside_a_running_loop(simulated: Client) -> None:
    """As in a notebook, whose cells run in an event loop."""

    async def cell() -> str:
        return simulated.wait(simulated.submit(job("cell")), timeout=PATIENCE).phase

    assert asyncio.run(cell()) == "Completed"


async def test_the_asynchronous_client_is_the_same(simulated: Client) -> None:
    data_dir = simulated.endpoint().private.data.root  # type: ignore[union-attr]
    async with AsyncClient(Where(data_dir=data_dir)) as client:
        jobs = await asyncio.gather(*(client.submit(job(f"async-{number}")) for number in range(3)))
        ends = await asyncio.gather(*(client.wait(each, timeout=PATIENCE) for each in jobs))
        assert [end.phase for end in ends] == ["Completed"] * 3


def test_logs_of_real_processes(machine: Client) -> None:
    script = "import os; print('number', os.environ['VC_TASK_INDEX'], 'in', os.path.basename(os.getcwd()))"
    talking = Job("talking").plugin("env").task("worker", replicas=2, command=["python", "-c", script])
    submitted = machine.submit(talking)
    followed = {str(line) for line in machine.logs(submitted, follow=True)}
    folder = Path.cwd().name
    assert followed == {f"talking-worker-{n} | number {n} in {folder}" for n in range(2)}
    assert {str(line) for line in machine.logs(submitted)} == followed
    assert list(machine.logs(submitted, task="other")) == []


@pytest.mark.parametrize(
    ("where", "told"),
    [
        (Where(data_dir="/nowhere/at/all"), "unisono up --data-dir"),
        (Where(data_dir="/a", private=True), "data_dir and private"),
        (Where(kubeconfig="/nowhere/config"), "no such kubeconfig"),
        (Where(in_cluster=True), "does not run in a pod"),
        (Where(nodes=({"name": "n", "count": "many"},)), "count"),
    ],
)
async def test_a_control_plane_that_is_not_there(where: Where, told: str) -> None:
    with pytest.raises(UnisonoError, match=told):
        await AsyncClient(where).endpoint()


def test_a_private_control_plane_goes_with_its_client() -> None:
    client = Client(local_node=False, nodes=({"name": "n", "count": 1, "capacity": {"cpu": 1, "memory": "1Gi"}},))
    plane = client.endpoint().private
    assert plane is not None
    assert plane.data.running_pid() is not None
    client.close()
    client.close()
    assert plane.data.running_pid() is None
    assert not plane.data.root.exists()
    with pytest.raises(RuntimeError, match="closed"):
        client.list()


ORPHAN = """
import os, signal
from unisono.sdk import Client
client = Client(private=True)
print(client.endpoint().private.data.root, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_private_control_plane_goes_when_its_program_is_killed() -> None:
    done = subprocess.run([sys.executable, "-c", ORPHAN], capture_output=True, text=True, timeout=PATIENCE, check=False)
    root = Path(done.stdout.strip())
    assert root.name.startswith("unisono-"), done.stderr
    wait_until("the orphan's folder is gone", lambda: not root.exists())


def test_no_control_plane_is_an_error_of_the_one_tree() -> None:
    assert issubclass(NoControlPlane, UnisonoError)
