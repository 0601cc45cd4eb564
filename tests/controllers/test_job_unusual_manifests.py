"""Manifests with something unusual in them: what the API says of them, or what becomes of the job."""

from __future__ import annotations

import bisect
from typing import Any

import pytest
from job_pods import built, env, view_of
from job_world import World, task

from unisono.api.decode import decode
from unisono.api.defaulting import apply_defaults
from unisono.api.groups.batch import Job
from unisono.api.kinds import CONFIG_MAPS, JOBS, POD_GROUPS, PODS, SECRETS, SERVICES
from unisono.api.validation import validate
from unisono.controllers.job.plugins import load
from unisono.controllers.job.plugins.network import LONGEST_VARIABLE
from unisono.controllers.job.view import JobView
from unisono.jobkinds.idle_fields import unknown_flags

FRAMEWORKS = {"pytorch": "master", "tensorflow": "ps", "mpi": "master", "ray": "head", "jax": "coordinator"}


def plugins(*names: str) -> dict[str, list[str]]:
    return {name: [] for name in names}


def submitted(name: str = "job", **spec: Any) -> Job:
    """The job as the API stores it."""
    value = {"metadata": {"name": name, "namespace": "default"}, "spec": {"tasks": [task("a", 2)], **spec}}
    decoded = decode(JOBS, value)
    assert (decoded.unknown_fields, decoded.type_errors) == ([], [])
    apply_defaults(JOBS, decoded.obj)
    return decoded.obj


def refusals(job: Job) -> list[str]:
    return [error.message() for error in validate(JOBS, job, None)]


async def run(world: World, job: Job) -> str:
    """Let the job's pods run and succeed; answers its phase, after a look at everything that was made for it."""
    assert refusals(job) == []
    await world.submit(job)
    await world.admit(job.metadata.name)
    for kind in (PODS, SERVICES, CONFIG_MAPS, SECRETS, POD_GROUPS):
        for made in world.client.objects(kind):
            apply_defaults(kind, made)
            assert list(validate(kind, made, None)) == []
    await world.all_pods("Running")
    await world.all_pods("Succeeded")
    return world.phase(job.metadata.name)


@pytest.mark.parametrize(
    ("name", "spec", "field", "text"),
    [
        ("job", {"tasks": [task("a", 2, minAvailable=3)]}, "spec.tasks[0].minAvailable", "greater than 'replicas'"),
        ("job", {"minAvailable": 3}, "spec.minAvailable", "not be greater than total replicas in tasks (2)"),
        ("job", {"tasks": [task("a"), task("a")]}, "spec.tasks[1].name", "duplicated task name a"),
        # A task without a name gets one, which another may have already.
        ("job", {"tasks": [task("default1"), task("")]}, "spec.tasks[1].name", "duplicated task name default1"),
        ("job", {"tasks": [task("a", -1)]}, "spec.tasks[0].replicas", "greater than or equal to 0"),
        ("job", {"tasks": []}, "spec.tasks", "No task specified"),
        ("job", {"tasks": [task("Worker")]}, "spec.tasks[0].name", "should match"),
        ("job", {"tasks": [task("a.b")]}, "spec.tasks[0].name", "should match"),
        ("Job", {}, "metadata.name", "lower case"),
        ("my_job", {}, "metadata.name", "lower case"),
        # The pods' names are longer than the job's.
        ("j" * 63, {}, "spec.tasks[0].name", "must be no more than 63 bytes"),
        ("job", {"tasks": [task("t" * 58)]}, "spec.tasks[0].name", "must be no more than 63 bytes"),
        # The thousandth pod's name is two letters longer than the tenth's.
        ("j" * 57, {"tasks": [task("a", 1001)]}, "spec.tasks[0].name", "must be no more than 63 bytes"),
        ("my.job", {"plugins": plugins("svc")}, "metadata.name", "write the name with '-'"),
        ("my.job", {"plugins": plugins("env", "ssh")}, "metadata.name", "the plug-ins ssh name"),
        ("my.job", {"plugins": plugins("pytorch")}, "metadata.name", "the plug-ins pytorch, svc name"),
        ("job", {"plugins": plugins("nvidia")}, "spec.plugins[nvidia]", "unable to find job plugin: nvidia"),
    ],
)
def test_what_is_refused_names_its_field(name, spec, field, text):
    found = refusals(submitted(name, **spec))
    assert any(message.startswith(f"{field}: ") and text in message for message in found), found


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("my.job", {}),
        ("my.job", {"plugins": plugins("env")}),
        ("1-job", {"plugins": plugins("env")}),
        ("j" * 59, {"plugins": plugins("svc", "ssh", "env")}),
        ("job", {"tasks": [task("t" * 57)], "plugins": plugins("svc", "ssh", "env")}),
        ("job", {"tasks": [task(""), task("")], "plugins": plugins("svc")}),
        ("job", {"maxRetry": 0, "minAvailable": 0}),
        ("job", {"tasks": [task("a", 0), task("b", 2)], "plugins": plugins("svc", "ssh", "env")}),
        ("job", {"tasks": [task("a", 0), task("b", dependsOn={"name": ["a"]})]}),
        *(
            ("job", {"tasks": [task(leader, leaders), task("worker", workers)], "plugins": plugins(framework)})
            for framework, leader in FRAMEWORKS.items()
            for leaders, workers in ((0, 2), (1, 0))
        ),
    ],
)
async def test_what_is_unusual_and_works(name, spec):
    async with World() as world:
        assert await run(world, submitted(name, **spec)) == "Completed"


async def test_a_job_without_any_pod_waits_for_its_first_one():
    async with World() as world:
        await world.submit(submitted(tasks=[task("a", 0)], plugins=plugins("svc")))
        await world.admit()
        assert (world.phase(), world.pods()) == ("Pending", [])
        await world.change("job", tasks=[task("a", 2)], minAvailable=2)
        await world.all_pods("Running")
        await world.all_pods("Succeeded")
        assert world.phase() == "Completed"


async def test_more_successes_than_there_are_pods_cannot_be():
    async with World() as world:
        assert await run(world, submitted(minSuccess=5)) == "Failed"
        assert "minSuccess is 5" in world.job().status.state.message


@pytest.mark.parametrize(
    ("arguments", "unknown"),
    [
        ([], []),
        (["--port=1", "-port=1", "--port", "1", "port=1"], []),
        (["--prot=3"], ["--prot"]),
        (["--prot", "3"], ["--prot"]),
        (["3"], ["3"]),
        (["--port", "1", "2"], ["2"]),
        (["--a=1", "--a=2", "-b"], ["--a", "-b"]),
    ],
)
def test_arguments_that_nobody_reads(arguments, unknown):
    assert unknown_flags(arguments, {"port"}) == unknown


async def test_an_argument_that_a_plugin_does_not_know_is_told_once_and_left_out():
    given = {"pytorch": ["--master=a", "--prot=3"], "env": ["x"]}
    async with World() as world:
        assert await run(world, submitted(plugins=given)) == "Completed"
        first, second = world.recorder.of("UnknownPluginArgument")
        assert first == "plug-in env leaves out x: it knows no arguments"
        assert second.startswith("plug-in pytorch leaves out --prot: it knows --master, --worker, --port")


async def test_an_argument_that_makes_no_sense_is_told_once_and_can_be_read_in_the_status():
    async with World() as world:
        await world.submit(submitted(plugins={"svc": ["--disable-network-policy=maybe"]}))
        await world.advance(300)
        (told,) = world.recorder.of("PluginError")
        assert "--disable-network-policy is 'maybe'; write true or false." in told
        assert (world.phase(), world.job().status.state.message) == ("Pending", told)
        assert world.pods() == []


# --- a job of ten thousand pods -------------------------------------------------------------------------------------


def test_a_job_of_ten_thousand_pods_is_taken():
    assert refusals(submitted(tasks=[task("worker", 10_000)], plugins=plugins("svc", "ssh", "env"))) == []


@pytest.mark.parametrize(("replicas", "told"), [(100, False), (10_000, True)])
def test_a_list_of_hosts_that_no_program_could_be_started_with_stays_in_its_file(replicas, told):
    view = view_of(task("worker", replicas), task("few", 2), plugins={"svc": []})
    (svc,) = load(view)
    data, variables = svc.hosts_data(), env(built(view, "few"))
    assert len(data["worker.host"].splitlines()) == replicas
    fits = len(f"VC_WORKER_HOSTS={data['VC_WORKER_HOSTS']}") < LONGEST_VARIABLE
    assert ("VC_WORKER_HOSTS" in variables) is fits is not told
    assert {"VC_WORKER_NUM", "VC_FEW_HOSTS", "VC_FEW_NUM"} <= variables.keys()
    assert [text for _, text in svc.remarks()] == told * [
        "VC_WORKER_HOSTS is too long for an environment variable: read the hosts from /etc/volcano/worker.host"
    ]


def test_the_longest_list_of_hosts_that_fits_is_kept():
    def view(count: int) -> JobView:
        return view_of(task("w", count), plugins={"svc": []})

    def length(count: int) -> int:
        """Bytes of the variable, with the zero after them."""
        (svc,) = load(view(count))
        return len(f"VC_W_HOSTS={svc.hosts_data()['VC_W_HOSTS']}") + 1

    most = bisect.bisect_right(range(20_000), LONGEST_VARIABLE, key=length) - 1
    assert [("VC_W_HOSTS" in env(built(view(count)))) for count in (most, most + 1)] == [True, False]
