"""The SDK's pure parts: builders, what may be submitted, sizes, verdicts, results in logs."""

from __future__ import annotations

import json
import pickle
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.api.annotations import VERDICT, WORKING_DIRECTORY
from unisono.api.decode import decode
from unisono.api.defaulting import apply_defaults
from unisono.api.groups.batch import Job as ApiJob
from unisono.api.kinds import JOBS, POD_GROUPS, QUEUES
from unisono.api.validation import validate
from unisono.api.verdict import verdict_in, waiting_text
from unisono.engine.changes import AddNodes
from unisono.engine.verdict import Cause, Holder, Verdict
from unisono.errors import ConfigError
from unisono.jobkinds.volcano import scale_patch
from unisono.scheduler.explain import render
from unisono.sdk import BadWork, CannotShip, Job, RemoteError
from unisono.sdk.functions.launch import Frames
from unisono.sdk.functions.pod_entrypoint import CHUNK, frames
from unisono.sdk.jobs.builders import quantity
from unisono.sdk.jobs.control import job_command, queue_command
from unisono.sdk.jobs.submission import mark_folder, objects, split
from unisono.sdk.state.observing import DependentsIndex, observation

TOKEN = "unisono-result-0011"


def accepted(manifest: dict[str, Any]) -> ApiJob:
    """The job as a server stores it; fails where one would refuse it."""
    decoded = decode(JOBS, manifest)
    assert not decoded.unknown_fields
    assert not decoded.type_errors
    apply_defaults(JOBS, decoded.obj)
    assert not validate(JOBS, decoded.obj)
    return decoded.obj


def test_everything_that_a_builder_can_say_is_accepted() -> None:
    job = (
        Job("train", "gold", namespace="team", min_available=3, priority_class="high", max_retry=2, ttl_seconds=60,
            labels={"a": "b"}, annotations={"c": "d"})
        .plugin("pytorch", "--port=29500")
        .policy("RestartJob", event="PodEvicted", timeout="5m")
        .policy("TerminateJob", exit_code=3)
        .task("master", command=["python"], args=["train.py"], cpu=0.5, memory=2**30, env={"X": "1"}, working_dir="/w")
        .task("worker", command=["python"], replicas=4, min_available=2, gpus=2, resources={"rdma/hca": 1},
              restart_policy="OnFailure", pod={"nodeSelector": {"zone": "a"}}, container={"tty": True})
    )  # fmt: skip
    stored = accepted(job.manifest())
    assert (stored.metadata.namespace, stored.spec.queue, stored.spec.min_available) == ("team", "gold", 3)
    master, worker = stored.spec.tasks or []
    container = (master.template.spec.containers or [])[0]
    assert container.resources is not None
    assert container.resources.requests == {"cpu": "500m", "memory": "1073741824"}
    container = (worker.template.spec.containers or [])[0]
    assert container.resources is not None
    assert container.resources.limits == {"rdma/hca": "1", "nvidia.com/gpu": "2"}
    assert worker.template.spec.node_selector == {"zone": "a"}
    assert stored.spec.plugins is not None
    assert stored.spec.plugins["pytorch"] == ["--port=29500"]


def test_a_builder_refuses_what_it_knows_to_be_wrong() -> None:
    with pytest.raises(BadWork, match="has no task"):
        Job("empty").manifest()
    with pytest.raises(BadWork, match="already"):
        Job("twice").task("t", command=["x"]).task("t", command=["y"])
    assert Job("prefix-").task("t", command=["x"]).manifest()["metadata"] == {"generateName": "prefix-"}


@pytest.mark.parametrize(
    ("amount", "text"), [(2, "2"), (2.0, "2"), (0.5, "500m"), (0.0015, "2m"), ("1500m", "1500m"), (2**40, str(2**40))]
)
def test_numbers_become_quantities(amount: float | str, text: str) -> None:
    assert quantity(amount) == text


MANIFEST = Job("m").task("t", command=["x"]).manifest()


def test_a_mapping_is_copied_and_a_struct_is_taken() -> None:
    found, _ = objects(MANIFEST)
    found[0]["spec"]["tasks"][0]["name"] = "changed"
    assert MANIFEST["spec"]["tasks"][0]["name"] == "t"
    assert split(objects(decode(JOBS, MANIFEST).obj)[0])[1]["metadata"]["name"] == "m"


def test_a_file_says_where_its_processes_start(tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    file.write_text(json.dumps(MANIFEST))
    found, folder = objects(str(file))
    mark_folder(found[0], folder)
    annotations = found[0]["spec"]["tasks"][0]["template"]["metadata"]["annotations"]
    assert annotations == {WORKING_DIRECTORY: str(tmp_path)}


@pytest.mark.parametrize(
    ("work", "error", "told"),
    [
        (7, BadWork, "a int is no job"),
        ({"kind": "Job"}, BadWork, "no apiVersion"),
        ("/no/such/file.yaml", BadWork, "cannot be read"),
        ("# nothing\n", BadWork, "holds no object"),
        ("a: [\n", ConfigError, "text"),
        ([MANIFEST], BadWork, "a list is no job"),
    ],
)
def test_what_is_no_work(work: Any, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        objects(work)


def test_exactly_one_job_of_ours_is_submitted() -> None:
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {}}
    torch = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {}}
    assert split([queue, torch]) == ([queue], torch)
    for found, told in (([MANIFEST, torch], "here are 2"), ([queue], "here are 0")):
        with pytest.raises(BadWork, match=told):
            split(found)


SIZES = st.integers(0, 20)


@given(st.lists(st.tuples(SIZES, st.none() | SIZES), min_size=1, max_size=4), st.none() | SIZES, SIZES, st.data())
def test_a_scaled_job_is_one_that_a_server_accepts(
    tasks: list[tuple[int, int | None]], gang: int | None, replicas: int, data: st.DataObject
) -> None:
    """Never more needed than there are; what needed everybody still does; other tasks are left alone."""
    chosen = data.draw(st.integers(0, len(tasks) - 1))
    listed = [
        {"name": f"t{i}", "replicas": size, **({} if least is None else {"minAvailable": min(least, size)})}
        for i, (size, least) in enumerate(tasks)
    ]
    total = sum(size for size, _ in tasks)
    spec = {"tasks": listed, **({} if gang is None else {"minAvailable": min(gang, total)})}
    job = decode(JOBS, {"metadata": {"name": "j", "resourceVersion": "5"}, "spec": spec}).obj
    patch = {each["path"]: each["value"] for each in scale_patch(job, f"t{chosen}", replicas)}
    assert patch.pop("/metadata/resourceVersion") == "5"
    assert patch[f"/spec/tasks/{chosen}/replicas"] == replicas
    assert all(path.startswith((f"/spec/tasks/{chosen}/", "/spec/minAvailable")) for path in patch)
    needed = patch.get(f"/spec/tasks/{chosen}/minAvailable")
    assert needed is None or needed <= replicas
    changed = total - tasks[chosen][0] + replicas
    if gang is not None:
        assert patch["/spec/minAvailable"] <= changed
        if gang >= total:
            assert patch["/spec/minAvailable"] == changed


def test_commands_are_vcctls() -> None:
    job = decode(JOBS, {"metadata": {"name": "train", "namespace": "team", "uid": "u"}}).obj
    command = job_command(job, "AbortJob")
    assert (command.metadata.generate_name, command.metadata.namespace) == ("train-abortjob-", "team")
    assert command.metadata.owner_references == [command.target]
    assert command.target is not None
    assert (command.target.api_version, command.target.uid, command.target.controller) == (
        "batch.volcano.sh/v1alpha1",
        "u",
        True,
    )
    queue = decode(QUEUES, {"metadata": {"name": "gold", "uid": "q"}}).obj
    assert queue_command(queue, "CloseQueue").metadata.namespace == "default"


def test_a_verdict_is_what_the_scheduler_published() -> None:
    written = Verdict(
        "team/train-u",
        Cause.NODES_FULL,
        "needs 8 GPUs",
        need={"nvidia.com/gpu": 8000},
        tasks_placeable=1,
        tasks_needed=2,
        reasons={"Insufficient nvidia.com/gpu": 3},
        nodes=3,
        holders=(Holder("Queue", "gold", {"nvidia.com/gpu": 4000}),),
        suggestion="add 1 node like n1",
        changes=(AddNodes("n1", 1),),
        would_run_after=("team/other-0",),
        queue="gold",
    )
    found = verdict_in({VERDICT: render(written)})
    assert found is not None
    for name in ("job", "cause", "message", "need", "tasks_needed", "reasons", "nodes", "would_run_after", "queue"):
        assert getattr(found, name) == getattr(written, name), name
    assert found.change == {"kind": "AddNodes", "like": "n1", "count": 1}
    assert (found.holders[0].name, found.holders[0].amounts) == ("gold", {"nvidia.com/gpu": 4000})
    assert str(found) == "needs 8 GPUs (try: add 1 node like n1)"


@pytest.mark.parametrize("text", ["", "not json", "[]", '{"cause": 3}'])
def test_what_is_no_verdict_is_none(text: str) -> None:
    assert verdict_in({VERDICT: text}) is None
    assert waiting_text({VERDICT: text}) == ""


def test_a_view_counts_only_the_jobs_own_pods() -> None:
    """A job of the same name that was deleted may still have pods that end."""
    job = decode(JOBS, {"metadata": {"name": "j", "namespace": "n", "uid": "new"}, "spec": MANIFEST["spec"]}).obj
    old = decode(POD_GROUPS, {"metadata": {"name": "j-old", "ownerReferences": [{"uid": "old"}]}}).obj
    index = DependentsIndex({}, [old], [])
    seen = observation(JOBS, job, index.of(JOBS, job))
    assert (seen.view.admitted, seen.pods) == (False, ())


def carried(kind: str, data: bytes) -> list[str]:
    text = b"".join(frames(TOKEN, kind, data)).decode()
    return [line for line in text.split("\n") if line]


@given(st.binary(max_size=3 * CHUNK), st.data())
def test_a_result_survives_whatever_else_is_in_the_log(value: bytes, data: st.DataObject) -> None:
    lines = carried("result", pickle.dumps(value))
    noise = st.text(alphabet=st.characters(blacklist_characters="\n"), max_size=20)
    log = [part for line in lines for part in (data.draw(noise), line, data.draw(noise))]
    assert all(len(line) < 4096 for line in lines), "a pipe takes each in one piece"
    found = Frames(TOKEN)
    assert [line for line in log if found.feed(line)] == lines
    assert found.value(0) == value


@given(st.integers(0, 2**32), st.integers(1, 3), st.data())
def test_a_log_that_was_cut_or_garbled_is_no_result(seed: int, size: int, data: st.DataObject) -> None:
    lines = carried("result", random.Random(seed).randbytes(size * CHUNK))  # bytes that do not compress
    if data.draw(st.booleans()):
        del lines[data.draw(st.integers(0, len(lines) - 1))]
    else:
        index = data.draw(st.integers(0, len(lines) - 1))
        lines[index] = lines[index][: data.draw(st.integers(len(TOKEN) + 1, len(lines[index]) - 1))]
    found = Frames(TOKEN)
    for line in lines:
        found.feed(line)
    with pytest.raises(CannotShip, match="not in its pod's log"):
        found.value(1)


def test_a_restarted_ranks_last_result_counts() -> None:
    found = Frames(TOKEN)
    for value in ("first", "second"):
        for line in carried("result", pickle.dumps(value)):
            found.feed(line)
    assert found.value(0) == "second"


def test_an_error_carries_its_traceback() -> None:
    found = Frames(TOKEN)
    told = {"message": "ValueError: no", "traceback": "Traceback ...\nValueError: no\n"}
    for line in carried("error", json.dumps(told).encode()):
        found.feed(line)
    with pytest.raises(RemoteError, match="Rank 2 raised ValueError: no") as raised:
        found.value(2)
    assert raised.value.traceback == told["traceback"]
