"""Texts that users write into labels, annotations and fields: none of them fails a controller."""

from __future__ import annotations

import json
import shlex
from typing import Any

import msgspec
import pytest

from unisono.api.core import ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodStatus
from unisono.api.groups.kubeflow import MPIJob
from unisono.api.groups.ray import RayJob
from unisono.api.keys import COMPLETION_INDEX, GROUP_MIN_MEMBER, LAST_APPLIED, NETWORK_TOPOLOGY_HIGHEST_TIER
from unisono.controllers.hypernode.discovery import parse_config
from unisono.controllers.job.plugins import base
from unisono.controllers.owners import LARGEST_NUMBER, json_object, whole_number
from unisono.controllers.podgroup.decide import min_member, topology
from unisono.controllers.training.kubeflow.mpi import version_of
from unisono.controllers.training.ray.job import submit_command
from unisono.controllers.training.ray.service import told_by
from unisono.controllers.workloads.job_decide import index_of
from unisono.controllers.workloads.templates import amount

DEEP = '{"a":' * 20_000
HUGE = "9" * 5_000


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("007", 7),
        (str(LARGEST_NUMBER), LARGEST_NUMBER),
        (str(LARGEST_NUMBER + 1), LARGEST_NUMBER),
        (HUGE, LARGEST_NUMBER),
        ("0" * 5_000 + "5", 5),
        ("", None),
        (None, None),
        ("-1", None),
        ("1.0", None),
        (" 1", None),
        ("²", None),
        ("٣", None),
    ],
)
def test_whole_numbers(text: str | None, number: int | None) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize("text", ["", None, "[]", "1", "{", DEEP, "[" * 20_000])
def test_what_holds_no_json_object_is_empty(text: str | None) -> None:
    assert json_object(text) == {}


@pytest.mark.parametrize("text", [DEEP, "[" * 20_000, "not json", "[1]"])
def test_the_version_of_an_mpi_job_whose_last_applied_text_cannot_be_read(text: str) -> None:
    job = MPIJob()
    job.metadata.annotations = {LAST_APPLIED: text}
    assert version_of(job) == "v1"


def test_numbers_with_thousands_of_digits_and_of_other_scripts() -> None:
    assert min_member({GROUP_MIN_MEMBER: HUGE}) == LARGEST_NUMBER
    found = topology({NETWORK_TOPOLOGY_HIGHEST_TIER: HUGE})
    assert found is not None and found.highest_tier_allowed == LARGEST_NUMBER
    pod = Pod()
    pod.metadata.annotations = {COMPLETION_INDEX: HUGE}
    assert index_of(pod) == LARGEST_NUMBER
    assert amount(f"{HUGE}%", 0, up=True) == 0
    assert base.flag_seconds("svc", {"t": HUGE}, "t") == LARGEST_NUMBER
    with pytest.raises(base.PluginError, match="write a port"):
        base.flag_port("svc", {"port": "²"}, "port")


def test_the_last_words_of_a_deployer_are_nested_too_deep() -> None:
    state = ContainerState(terminated=ContainerStateTerminated(exit_code=0, message='{"":' * 1024))
    pod = Pod(status=PodStatus(container_statuses=[ContainerStatus(name="ray-serve-deployer", state=state)]))
    assert told_by(pod, "applications: [{name: a}]") is not None


@pytest.mark.parametrize(
    ("text", "environment"),
    [
        ("env_vars: {DAY: 2026-11-20, TIME: 12:30:45}", {"env_vars": {"DAY": "2026-11-20", "TIME": "12:30:45"}}),
        ("day: 2026-13-45", {"day": "2026-13-45"}),
        ("[" * 5_000, {}),
        ("a: [", {}),
        ("", None),
    ],
)
def test_the_runtime_environment_of_a_ray_job(text: str, environment: dict[str, Any] | None) -> None:
    job = msgspec.convert({"metadata": {"name": "rj"}, "spec": {"runtimeEnvYAML": text, "entrypoint": "x"}}, RayJob)
    words = shlex.split(submit_command(job, "head", "job-1"))
    found = [each.removeprefix("--runtime-env-json=") for each in words if each.startswith("--runtime-env-json=")]
    assert [json.loads(each) for each in found] == ([] if environment is None else [environment])


def test_a_discovery_configuration_that_is_nested_too_deep_is_told() -> None:
    (problem,) = parse_config("[" * 5_000).problems
    assert problem.startswith("volcano-controller.conf: ") and "nested" in problem
