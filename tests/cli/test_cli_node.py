"""``unisono node``: how nodes stand, and who takes them out and brings them back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.build import START, node
from unisono.api.annotations import NODE_CHECKS, QUARANTINE
from unisono.api.core import Node
from unisono.api.kinds import EVENTS, NODES
from unisono.api.node_checks import BY_HAND, Mark, book_of, marks_text, quarantined_by
from unisono.apiserver.backend import Backend
from unisono.apiserver.server import ApiServer
from unisono.cli.main import main
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import load


class Plane:
    def __init__(self, server: ApiServer, client: HttpClient, capsys: pytest.CaptureFixture[str]) -> None:
        self.client, self._path, self._capsys = client, server.kubeconfig_path, capsys

    async def run(self, *words: str) -> str:
        def call() -> None:
            with pytest.raises(SystemExit) as end:
                main(["node", *words, "--kubeconfig", str(self._path)])
            assert not end.value.code

        await asyncio.to_thread(call)
        return self._capsys.readouterr().out

    async def node(self) -> Node:
        return await self.client.get(NODES, "n0")

    async def events(self) -> list[tuple[str, str]]:
        return [(one.reason or "", one.message or "") for one in (await self.client.list(EVENTS)).items]


@pytest.fixture
async def plane(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> AsyncIterator[Plane]:
    backend = await Backend.open(tmp_path / "state.db")
    server = ApiServer(backend.service, data_dir=tmp_path)
    await server.start()
    client = HttpClient(load(server.kubeconfig_path))
    try:
        there = node("n0", taints=[("dedicated", "x", "NoSchedule")])
        there.metadata.annotations = {NODE_CHECKS: marks_text({"gpus": Mark("Passed", START)})}
        await client.create(NODES, there)
        yield Plane(server, client, capsys)
    finally:
        await client.close()
        await server.stop()
        await backend.close()


async def test_a_node_is_taken_out_and_brought_back_and_events_say_by_whom(plane: Plane) -> None:
    assert await plane.run("quarantine", "n0", "--reason", "fans rattle") == "node/n0 takes no more jobs\n"
    there = await plane.node()
    assert quarantined_by(there.spec.taints) == BY_HAND
    assert [one.key for one in there.spec.taints or ()] == ["dedicated", QUARANTINE]
    assert (there.metadata.annotations or {})[QUARANTINE] == "unisono-admin: fans rattle"
    assert "is out already (by-hand)" in await plane.run("quarantine", "n0", "--reason", "again")
    out = (await plane.run("list")).splitlines()
    assert [out[0].split(), out[1].split()[:2]] == [
        ["NODE", "QUARANTINE", "CHECKS", "FAULTS", "REASON"],
        ["n0", "by-hand"],
    ]
    assert "unisono-admin: fans rattle" in out[1]
    assert await plane.run("lift", "n0", "--reason", "new fans") == "node/n0 takes jobs again\n"
    there = await plane.node()
    assert [one.key for one in there.spec.taints or ()] == ["dedicated"]
    assert QUARANTINE not in (there.metadata.annotations or {})
    assert book_of(there.metadata.annotations)["gpus"].state == "Passed"
    assert ("NodeQuarantined", "by unisono-admin: fans rattle") in await plane.events()
    assert ("QuarantineLifted", "by unisono-admin (it was by-hand): new fans") in await plane.events()
    assert await plane.run("lift", "n0") == "node/n0 is not in quarantine\n"


async def test_a_node_may_have_to_pass_its_checks_first(plane: Plane) -> None:
    await plane.run("quarantine", "n0", "--reason", "x")
    assert await plane.run("lift", "n0", "--check") == "node/n0 is checked again\n"
    assert book_of((await plane.node()).metadata.annotations)["gpus"].state == "Waiting"
    (row,) = json.loads(await plane.run("list", "--output", "json"))
    assert (row["name"], row["quarantine"], row["checks"]["gpus"]["state"]) == ("n0", "", "Waiting")
