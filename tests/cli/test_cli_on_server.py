"""Commands on a real embedded API: what they say where names, queues and credentials are wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.serving import token_of
from unisono.api.decode import decode
from unisono.api.kinds import JOBS
from unisono.apiserver.backend import Backend
from unisono.apiserver.server import ApiServer
from unisono.cli.main import main
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import load

Run = Callable[..., Awaitable[tuple[int, str, str]]]

JOB = {
    "metadata": {"name": "train", "namespace": "default"},
    "spec": {
        "minAvailable": 1,
        "tasks": [
            {
                "name": "w",
                "replicas": 1,
                "template": {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}},
            }
        ],
    },
}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    backend = await Backend.open(tmp_path / "state.db")
    served = ApiServer(backend.service, data_dir=tmp_path)
    await served.start()
    try:
        yield served
    finally:
        await served.stop()
        await backend.close()


@pytest.fixture
def run(server: ApiServer, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in a thread, as it makes a loop of its own; answers its code, and what it wrote where."""

    def call(words: tuple[str, ...], kubeconfig: Path) -> int:
        try:
            main([*words, "--kubeconfig", str(kubeconfig)])
        except SystemExit as end:
            return int(end.code or 0)
        raise AssertionError("the command line always ends with an exit code")

    async def started(*words: str, kubeconfig: Path | None = None) -> tuple[int, str, str]:
        code = await asyncio.to_thread(call, words, kubeconfig or server.kubeconfig_path)
        written = capsys.readouterr()
        return code, written.out, written.err

    return started


async def put_job(server: ApiServer, **status: Any) -> None:
    client = HttpClient(load(server.kubeconfig_path))
    try:
        await client.create(JOBS, decode(JOBS, JOB).obj)
        await client.patch(JOBS, "train", {"status": status}, namespace="default", subresource="status")
    finally:
        await client.close()


@pytest.mark.parametrize("words", [("get", "jobs"), ("job", "list"), ("queue", "list"), ("explain", "job/x")])
async def test_credentials_that_have_expired_are_told_with_the_way_out(
    run: Run, server: ApiServer, tmp_path: Path, words: tuple[str, ...]
) -> None:
    text = server.kubeconfig_path.read_text().replace(token_of(server), "expired")
    value = yaml.safe_load(text)
    for user in value["users"]:
        user["user"] = {"token": "expired"}
    stale = tmp_path / "stale"
    stale.write_text(yaml.safe_dump(value))
    code, out, err = await run(*words, kubeconfig=stale)
    assert (code, out) == (1, "")
    assert "Unauthorized" in err
    assert "Log in again" in err and "--kubeconfig" in err


@pytest.mark.parametrize("words", [("job", "list"), ("pod", "list")])
async def test_an_empty_list_tells_of_a_queue_that_does_not_exist(run: Run, words: tuple[str, ...]) -> None:
    assert await run(*words) == (0, "No resources found\n", "")
    code, out, err = await run(*words, "--queue", "trian")
    assert (code, out) == (0, "No resources found\n")
    assert "There is no queue trian" in err and "unisono queue list" in err
    code, out, err = await run(*words, "--queue", "trian", "--output", "json")
    assert (code, err) == (0, "")
    assert '"items": []' in out


@pytest.mark.parametrize("verb", ["suspend", "resume"])
@pytest.mark.parametrize(
    ("phase", "refused"), [("Completed", True), ("Failed", True), ("Terminated", True), ("Aborted", False)]
)
async def test_a_job_that_has_ended_is_neither_suspended_nor_resumed(
    run: Run, server: ApiServer, verb: str, phase: str, refused: bool
) -> None:
    await put_job(server, state={"phase": phase})
    code, out, err = await run("job", verb, "train")
    commands = (await run("get", "commands.bus.volcano.sh", "-o", "name"))[1]
    if not refused:
        assert (code, out) == (0, f"{verb} job train successfully\n")
        assert commands
        return
    assert (code, out, commands) == (1, "", "")
    assert f"the job train has ended ({phase})" in err
    assert "unisono job delete train" in err


@pytest.mark.parametrize("command", ["stop", "delete", "logs"])
async def test_a_name_alone_is_a_jobs_and_the_nearest_is_named(run: Run, server: ApiServer, command: str) -> None:
    await put_job(server, state={"phase": "Running"})
    code, _, err = await run(command, "trian")
    assert code == 1
    assert "did you mean job/train?" in err
    code, out, err = await run(command, "train")
    assert "did you mean" not in err
    if command != "logs":
        assert code == 0
        assert "train" in out


async def test_apply_shows_the_warnings_of_the_server(run: Run, tmp_path: Path) -> None:
    annotations = {"volcano.sh/preemptable": "perhaps", "kueue.x-k8s.io/podset-required-topology": "rack"}
    meta = {"name": "train", "annotations": annotations}
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump({"apiVersion": JOBS.api_version, "kind": "Job", **JOB, "metadata": meta}))
    code, out, err = await run("apply", "-f", str(file))
    assert (code, out) == (0, "job.batch.volcano.sh/train created\n")
    told = err.splitlines()
    assert len(told) == 2
    assert all(line.startswith(f"Warning: {file}") for line in told)
    assert '"perhaps" counts as false: write true or false' in err
    file.write_text(file.read_text().replace("perhaps", "maybe"))
    code, out, err = await run("apply", "-f", str(file))
    assert (code, out) == (0, "job.batch.volcano.sh/train configured\n")
    assert '"maybe" counts as false' in err


async def test_reservations_are_made_shown_and_deleted_with_slurms_words(run: Run) -> None:
    words = "ReservationName=Night StartTime=2200-01-01T00:00 Duration=60 Nodes=n[1-2] Users=alice"
    assert await run("scontrol", "create", "reservation", *words.split()) == (0, "Reservation created: night\n", "")
    code, out, _ = await run("get", "reservations")
    assert (code, out.split("\n")[0].split()[:5]) == (0, ["NAME", "PURPOSE", "PHASE", "START", "END"])
    code, out, _ = await run("scontrol", "show", "reservation")
    assert code == 0 and out.startswith("ReservationName=night StartTime=")
    assert "Users=alice Accounts=(null) Flags=(null) State=INACTIVE" in out
    code, _, err = await run("scontrol", "create", "reservation", *words.replace("Users=alice", "").split())
    assert code == 1 and "spec.users" in err
    assert (await run("scontrol", "delete", "ReservationName=night"))[:2] == (0, "reservation/night is deleted\n")
    assert (await run("scontrol", "show", "reservation"))[:2] == (0, "")


async def test_objects_that_are_refused_do_not_hold_up_the_others(run: Run, tmp_path: Path) -> None:
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    wrong = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "Wrong_Name"}}
    unknown = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}}
    last = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "last"}}
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    file = tmp_path / "many.yaml"
    file.write_text(yaml.safe_dump_all([definition, wrong, unknown, widget, last]))
    code, out, err = await run("apply", "-f", str(file))
    assert code == 1
    assert [line.rsplit(" ", 1)[1] for line in out.splitlines()] == ["created"] * 3
    errors = [line for line in err.splitlines() if line.startswith("Error:")]
    assert "Wrong_Name" in errors[0] and 'no matches for kind "Gadget"' in errors[1]
    assert "2 of 5 objects were refused." in errors[2]
    code, out, err = await run("apply", "-o", "json", "-f", str(file))
    assert code == 1 and [each["kind"] for each in yaml.safe_load(out)["items"]][1:] == ["Widget", "ConfigMap"]
