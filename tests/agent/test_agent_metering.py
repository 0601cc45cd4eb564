"""What containers use, on a recorded process tree and a clock that the test moves."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.virtual_clock import VirtualClock, settle
from unisono.agent.agent import FileMeter
from unisono.api.groups.resource_metrics import Amounts, Metered

TICKS = os.sysconf("SC_CLK_TCK")
MEBI = 1 << 20


class Machine:
    """Files of the kernel and of the agent."""

    def __init__(self, folder: Path) -> None:
        self.proc, self.data = folder / "proc", folder / "agent"
        self.proc.mkdir()
        self.use(0.0, 1024)
        self.clock = VirtualClock()
        self.meter = FileMeter("here", self.data, self.clock, self.proc, at_once)

    def use(self, seconds: float, mebi: int) -> None:
        idle, busy = 5000, round(seconds * TICKS)
        (self.proc / "stat").write_text(f"cpu  {busy} 0 0 {idle} 7 0 0 0 0 0\n")
        (self.proc / "meminfo").write_text(f"MemTotal: {8192 << 10} kB\nMemAvailable: {8192 - mebi << 10} kB\n")

    def process(self, pid: int, parent: int, seconds: float = 0.0, mebi: int = 0, ended_children: float = 0.0) -> None:
        folder = self.proc / str(pid)
        folder.mkdir(exist_ok=True)
        # State and parent, user and system time, both of children that have ended, start, and size in pages.
        fields = ["S", str(parent), *["0"] * 9]
        fields += [str(round(each * TICKS)) for each in (seconds / 2, seconds / 2, ended_children, 0.0)]
        fields += [*["0"] * 4, str(pid), "0", str(mebi * MEBI // os.sysconf("SC_PAGE_SIZE"))]
        (folder / "stat").write_text(f"{pid} (a ) name) {' '.join(fields)}\n")
        (folder / "smaps_rollup").write_text(f"Rss: {2 * mebi << 10} kB\nPss: {mebi << 10} kB\n")

    def run(self, uid: str, container: str, shim: int, number: int = 0) -> Path:
        folder = self.data / "pods" / uid / "runs" / container / str(number)
        folder.mkdir(parents=True)
        (folder / "started").write_text(f"pid={shim}\nstart_time=1\n")
        self.process(shim, 1)
        self.process(shim + 1, shim)
        return folder

    async def read(self) -> Metered:
        reading = asyncio.create_task(self.meter.read())
        await settle()
        await self.clock.advance(1.0)
        return await reading


async def at_once(look: Callable[[], Any]) -> Any:
    return look()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


async def test_a_container_uses_what_all_of_its_processes_use(machine: Machine) -> None:
    machine.run("u1", "main", 100)
    machine.process(110, 101, seconds=10.0, mebi=50)
    machine.process(111, 110, seconds=5.0, mebi=30)
    await machine.read()
    await machine.clock.advance(20.0)
    machine.use(60.0, 2048)
    machine.process(110, 101, seconds=14.0, mebi=50, ended_children=2.0)
    found = await machine.read()
    seconds = found.seconds
    assert found.pods == {"u1": {"main": Amounts(round(6.0 / seconds * 1000), 80 * MEBI)}}
    assert found.machine == Amounts(round(60.0 / seconds * 1000), 2048 * MEBI)
    assert found.node == "here"


async def test_what_has_ended_or_begun_meanwhile(machine: Machine) -> None:
    gone = machine.run("u1", "main", 100)
    machine.process(110, 101, seconds=10.0, mebi=50)
    await machine.read()
    await machine.clock.advance(20.0)
    (gone / "exit").write_text("exit_code=0\nsignal=0\nreason=Completed\nmessage=\nstarted_at=1.0\nfinished_at=2.0\n")
    machine.run("u2", "main", 200)
    machine.process(210, 201, seconds=1.0, mebi=10)
    found = await machine.read()
    assert set(found.pods) == {"u2"}
    assert found.pods["u2"]["main"].cpu == round(1.0 / found.seconds * 1000)


async def test_an_answer_is_given_again_for_a_while(machine: Machine) -> None:
    first = await machine.read()
    await machine.clock.advance(2.0)
    assert await machine.read() is first
    await machine.clock.advance(10.0)
    assert await machine.read() is not first
