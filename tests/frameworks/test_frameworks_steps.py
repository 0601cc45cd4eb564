"""Jobs in several steps or of several pods, with real processes: TrainJob, JobSet, Indexed Job and JobFlow."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from framework_jobs import SCRIPTS, Jobs, need
from framework_manifests import template, train_job

pytestmark = [pytest.mark.frameworks, pytest.mark.processes, pytest.mark.xdist_group("processes")]


@pytest.mark.torch
def test_a_train_job_runs_torchrun_on_two_nodes(jobs: Jobs) -> None:
    need("torch", always=False)
    words = ("torchrun", str(SCRIPTS / "allreduce.py"))
    jobs.submit(train_job("tune", "torch-distributed", 2, *words, numProcPerNode=1))
    jobs.wait_for_condition("trainjobs.trainer.kubeflow.org/tune", "Complete")
    told = re.findall(r"rank (\d) of (\d): the sum is (\d)", jobs.logs("tune"))
    assert sorted(told) == [("0", "2", "3"), ("1", "2", "3")]


def test_a_job_set_trains_when_its_data_are_prepared(jobs: Jobs, tmp_path: Path) -> None:
    def step(name: str, count: int, line: str, **fields: Any) -> dict[str, Any]:
        job = {"parallelism": count, "completions": count, "template": template("main", "sh", "-c", line)}
        return {"name": name, "template": {"spec": job}, **fields}

    data = tmp_path / "data"
    name, second = "pipeline-train-0-0.pipeline", "pipeline-train-0-1.pipeline"
    steps = [
        step("prepare", 1, f"echo 42 > {data}.new && mv {data}.new {data}"),
        step(
            "train",
            2,
            # Neither ends before both have looked: the name of a pod goes when the pod has ended.
            f"until getent hosts {name} && getent hosts {second}; do sleep 0.1; done >/dev/null; "
            f"echo worker $JOB_COMPLETION_INDEX has $(cat {data}) and finds $(getent hosts {name} | wc -l); "
            f"touch {data}.$JOB_COMPLETION_INDEX; until [ -e {data}.0 ] && [ -e {data}.1 ]; do sleep 0.1; done",
            dependsOn=[{"name": "prepare", "status": "Complete"}],
        ),
    ]
    spec = {"replicatedJobs": steps}
    jobs.submit(
        {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "pipeline"}, "spec": spec}
    )
    jobs.wait_for_condition("jobsets.jobset.x-k8s.io/pipeline", "Completed")
    told = sorted(jobs.logs("pipeline-train").split("\n"))
    assert [line for line in told if line] == [f"worker {index} has 42 and finds 1" for index in (0, 1)]


def test_an_indexed_job_gives_each_pod_its_part(jobs: Jobs) -> None:
    line = 'python -c \'import os; n = int(os.environ["JOB_COMPLETION_INDEX"]); print("part", n, n * n)\''
    spec = {
        "completionMode": "Indexed",
        "completions": 4,
        "parallelism": 2,
        "template": template("main", "sh", "-c", line),
    }
    jobs.submit({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "parts"}, "spec": spec})
    job = jobs.wait_for_condition("jobs.batch/parts", "Complete")
    assert (job["status"]["succeeded"], job["status"]["completedIndexes"]) == (4, "0-3")
    told = [line for line in jobs.logs("parts").split("\n") if line]
    assert sorted(told) == ["part 0 0", "part 1 1", "part 2 4", "part 3 9"]


def test_a_job_flow_hands_data_from_job_to_job(jobs: Jobs, tmp_path: Path) -> None:
    lines = {
        "prepare": f"echo 5 > {tmp_path}/five",
        "square": f"echo $(( $(cat {tmp_path}/five) * $(cat {tmp_path}/five) )) > {tmp_path}/square",
        "double": f"echo $(( $(cat {tmp_path}/five) * 2 )) > {tmp_path}/double",
        "report": f"echo $(( $(cat {tmp_path}/square) + $(cat {tmp_path}/double) ))",
    }
    needs = {"square": ["prepare"], "double": ["prepare"], "report": ["square", "double"]}
    group = "flow.volcano.sh/v1alpha1"
    for name, line in lines.items():
        task = {"name": "main", "replicas": 1, "template": template("main", "sh", "-c", line)}
        spec = {"minAvailable": 1, "policies": [{"event": "PodFailed", "action": "AbortJob"}], "tasks": [task]}
        jobs.submit({"apiVersion": group, "kind": "JobTemplate", "metadata": {"name": name}, "spec": spec})
    flows = [{"name": name, **({"dependsOn": {"targets": needs[name]}} if name in needs else {})} for name in lines]
    spec = {"jobRetainPolicy": "retain", "flows": flows}
    jobs.submit({"apiVersion": group, "kind": "JobFlow", "metadata": {"name": "sums"}, "spec": spec})

    def succeeded() -> bool:
        flow = jobs.reader.get("jobflows.flow.volcano.sh", "sums")
        return bool(flow.get("status", {}).get("state", {}).get("phase") == "Succeed")

    jobs.patiently("the job flow has succeeded", succeeded, "sums")
    assert jobs.logs("sums-report").strip() == "35"
    flow = jobs.reader.get("jobflows.flow.volcano.sh", "sums")
    assert sorted(flow["status"]["completedJobs"]) == sorted(f"sums-{name}" for name in lines)
