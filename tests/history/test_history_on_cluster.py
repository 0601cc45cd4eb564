"""Two replicas of the controllers beside one API server write one history into PostgreSQL, and commands report it."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import sys
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from click.testing import CliRunner

from support import postgres
from unisono.api.base import ObjectMeta
from unisono.api.core import Namespace
from unisono.api.groups.batch import Job, JobSpec, TaskSpec
from unisono.api.kinds import JOBS, NAMESPACES, POD_GROUPS, PODS
from unisono.apiserver.backend import Backend
from unisono.apiserver.server import ApiServer
from unisono.cli.main import cli
from unisono.errors import NotFound
from unisono.history.postgres import Postgres
from unisono.history.reading import Reader

pytestmark = [pytest.mark.processes, pytest.mark.more]
_TRIES = 1200


async def replica(stack: AsyncExitStack, kubeconfig: Path, dsn: Path, log: Path) -> asyncio.subprocess.Process:
    """``unisono controllers`` as a Deployment runs it."""
    arguments = ["controllers", "--kubeconfig", str(kubeconfig), "--listen", "", f"--history-dsn-file={dsn}"]
    with log.open("wb") as out:
        found = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "unisono", *arguments, "--log-level=debug", stdout=out, stderr=out
        )

    async def end() -> None:
        if found.returncode is None:
            found.kill()
        await found.wait()

    stack.push_async_callback(end)
    return found


async def eventually(check: Any) -> Any:
    for _ in range(_TRIES):
        if found := await check():
            return found
        await asyncio.sleep(0.1)
    raise AssertionError("it did not come true")


def report(dsn: Path, *arguments: str) -> str:
    done = CliRunner().invoke(cli, [*arguments, f"--history-dsn-file={dsn}"])
    assert done.exit_code == 0, done.output
    return done.output


async def test_two_replicas_write_one_history_and_keep_the_password(tmp_path: Path, server: postgres.Server) -> None:
    dsn, logs = tmp_path / "dsn", [tmp_path / f"{number}.log" for number in range(2)]
    dsn.write_text(server.database() + "\n")
    dsn.chmod(0o600)
    storage = Postgres.of_file(dsn)
    async with AsyncExitStack() as stack:
        backend = await Backend.open(tmp_path / "state.db")
        stack.push_async_callback(backend.close)
        web = ApiServer(backend.service, data_dir=tmp_path)
        await web.start()
        stack.push_async_callback(web.stop)
        client, kubeconfig = backend.client(), Path(web.kubeconfig_path)
        await client.create(NAMESPACES, Namespace(metadata=ObjectMeta(name="team")))
        first = await replica(stack, kubeconfig, dsn, logs[0])
        shown = [(Path("/proc") / str(first.pid) / name).read_bytes() for name in ("cmdline", "environ")]
        assert not [text for text in shown for secret in secrets() if secret.encode() in text]

        async def submitted(name: str) -> None:
            container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}
            template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
            task = {"name": "t", "replicas": 1, "template": template}
            spec = JobSpec(queue="default", tasks=[msgspec.convert(task, TaskSpec)], min_available=1)
            await client.create(JOBS, Job(metadata=ObjectMeta(name=name, namespace="team"), spec=spec))
            group = await eventually(lambda: group_of(name))
            # There is no scheduler here.
            await client.patch(
                POD_GROUPS,
                group.metadata.name,
                {"status": {"phase": "Inqueue"}},
                namespace="team",
            )
            pod = await eventually(lambda: pod_of(name))
            await client.bind("team", pod.metadata.name, "n1")
            await client.patch(
                PODS, pod.metadata.name, {"status": {"phase": "Succeeded"}}, namespace="team", subresource="status"
            )

        async def pod_of(name: str) -> Any:
            pods = (await client.list(PODS, "team")).items
            return next((pod for pod in pods if pod.metadata.name.startswith(f"{name}-")), None)

        async def group_of(name: str) -> Any:
            groups = (await client.list(POD_GROUPS, "team")).items
            return next((group for group in groups if group.metadata.name.startswith(f"{name}-")), None)

        async def known(name: str) -> Any:
            told = await asyncio.to_thread(report, dsn, "sacct", "-o", "json")
            return [job for job in json.loads(told)["jobs"] if job["name"] == name and job["state"] == "Completed"]

        async def begun() -> bool:
            with suppress(NotFound):
                await asyncio.to_thread(Reader(storage).places)
                return True
            return False

        await eventually(begun)
        await replica(stack, kubeconfig, dsn, logs[1])
        await submitted("first")
        await eventually(lambda: known("first"))
        # The leader goes without a word: the other takes over, and counts nothing twice.
        first.kill()
        await first.wait()
        await submitted("second")
        await eventually(lambda: known("second"))
        told = await asyncio.to_thread(report, dsn, "report", "--by", "namespace", "-o", "json")
        [row] = json.loads(told)["rows"]
        assert (row["key"], row["ended"]) == ("team", {"Completed": 2})
        told = await asyncio.to_thread(report, dsn, "report", "--by", "queue", "-o", "csv")
        assert list(csv.reader(io.StringIO(told)))[1][:3] == ["default", "2", "2"]
        table = await asyncio.to_thread(report, dsn, "report", "--by", "user")
        assert ["(unknown)", "2", "2"] in [line.split()[:3] for line in table.splitlines()]
    said = "".join(log.read_text() for log in logs)
    assert not [secret for secret in secrets() if secret in said]


def secrets() -> tuple[str, str]:
    return postgres.PASSWORD, quote(postgres.PASSWORD, safe="")


def test_a_wrong_password_is_told_without_it(tmp_path: Path, server: postgres.Server) -> None:
    dsn = tmp_path / "dsn"
    dsn.write_text(server.database().replace("unisono:", "nobody:"))
    done = CliRunner().invoke(cli, ["report"], env={**os.environ, "UNISONO_HISTORY_DSN_FILE": str(dsn)})
    assert done.exit_code != 0
    told = f"{done.output} {done.exception}"
    assert "password authentication failed" in told
    assert not [secret for secret in secrets() if secret in told]
