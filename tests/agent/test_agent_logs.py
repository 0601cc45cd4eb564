"""Reading container logs: files as the shim writes them, without processes."""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.virtual_clock import VirtualClock
from unisono.agent.layout import Layout, RunDir
from unisono.agent.lifecycle import Exit
from unisono.agent.logs import FileLogSource, last_lines
from unisono.agent.shim.run import Log
from unisono.api.pod_states import LogOptions
from unisono.errors import AgentError

STAMP = "2023-11-14T22:13:{:02d}.123456789Z"


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return spawned(tmp_path)


def spawned(root: Path) -> RunDir:
    run = Layout(root).pod("u").new_run("main", 0)
    (run.path / "lock").touch()
    return run


def write(run: RunDir, *records: str) -> None:
    with run.log.open("a") as file:
        for second, record in enumerate(records):
            file.write(f"{STAMP.format(second)} stdout {record}\n")


async def read(root: Path, clock: VirtualClock | None = None, **options: Any) -> str:
    stream = FileLogSource(root, clock or VirtualClock()).open("default", "p", "u", "main", LogOptions(**options))
    return b"".join([chunk async for chunk in stream]).decode()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "one\ntwo\nlong line\nfour\n"),
        ({"tail_lines": 2}, "long line\nfour\n"),
        ({"tail_lines": 0}, ""),
        ({"tail_lines": 99}, "one\ntwo\nlong line\nfour\n"),
        ({"limit_bytes": 6}, "one\ntw"),
        ({"since_seconds": 16.0}, "four\n"),
        ({"tail_lines": 1, "timestamps": True}, f"{STAMP.format(4)} four\n"),
    ],
)
async def test_options(tmp_path: Path, run: RunDir, options: dict[str, Any], expected: str) -> None:
    write(run, "F one", "F two", "P long ", "F line", "F four")
    assert await read(tmp_path, **options) == expected


async def test_previous_run(tmp_path: Path, run: RunDir) -> None:
    write(run, "F first")
    with pytest.raises(AgentError, match='previous terminated container "main" in pod "p" not found'):
        await read(tmp_path, previous=True)
    write(spawned(tmp_path), "F second")
    assert await read(tmp_path, previous=True) == "first\n"
    assert await read(tmp_path) == "second\n"


async def test_a_run_that_is_only_prepared_has_no_log(tmp_path: Path, run: RunDir) -> None:
    write(run, "F first")
    directory = Layout(tmp_path).pod("u")
    directory.new_run("main", 1)
    assert await read(tmp_path) == "first\n"
    directory.drop_prepared("main")
    assert [found.number for found in directory.runs("main")] == [0]


async def test_no_log_yet(tmp_path: Path) -> None:
    with pytest.raises(AgentError, match="has no log on this node yet"):
        await read(tmp_path)


async def test_follow_until_the_run_ends(tmp_path: Path, run: RunDir) -> None:
    clock = VirtualClock()
    with (run.path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        write(run, "F one")
        reading = asyncio.create_task(read(tmp_path, clock, follow=True))
        await clock.advance(1)
        write(run, "F two")
        await clock.advance(1)
        assert not reading.done()
        write(run, "F three")
        run.write_exit(Exit(0, 1.0, 2.0))
        await clock.advance(1)
    assert await reading == "one\ntwo\nthree\n"


async def test_follow_ends_when_nobody_holds_the_run(tmp_path: Path, run: RunDir) -> None:
    write(run, "F one")
    assert await read(tmp_path, follow=True) == "one\n"


async def test_rotation_loses_nothing_that_is_kept(tmp_path: Path, run: RunDir) -> None:
    log = Log(str(run.log), max_bytes=200, max_files=3)
    for number in range(20):
        log.feed("stdout", f"line {number}\n".encode())
    names = sorted(path.name for path in run.path.glob("log*"))
    assert names == ["log", "log.1", "log.2"]
    lines = (await read(tmp_path)).splitlines()
    assert lines[-1] == "line 19"
    assert lines == [f"line {n}" for n in range(20 - len(lines), 20)]


async def test_follow_across_rotation(tmp_path: Path, run: RunDir) -> None:
    clock = VirtualClock()
    log = Log(str(run.log), max_bytes=100, max_files=5)
    with (run.path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        log.feed("stdout", b"line 0\n")
        reading = asyncio.create_task(read(tmp_path, clock, follow=True))
        for number in range(1, 9):
            await clock.advance(0.2)
            log.feed("stdout", f"line {number}\n".encode())
        await clock.advance(0.2)
        run.write_exit(Exit(0, 1.0, 2.0))
        await clock.advance(0.2)
    assert (await reading).splitlines() == [f"line {n}" for n in range(9)]


async def test_unfinished_and_endless_lines(tmp_path: Path, run: RunDir) -> None:
    log = Log(str(run.log), max_bytes=1 << 20, max_files=2)
    log.feed("stdout", b"a")
    log.feed("stderr", b"warn\n")
    log.feed("stdout", b"b\n" + b"x" * 40_000)
    log.finish()
    assert await read(tmp_path) == "warn\nab\n" + "x" * 40_000 + "\n"


async def chunks(root: Path, **options: Any) -> list[bytes]:
    stream = FileLogSource(root, VirtualClock()).open("default", "p", "u", "main", LogOptions(**options))
    return [chunk async for chunk in stream]


async def test_an_endless_line_comes_in_bounded_pieces(tmp_path: Path, run: RunDir) -> None:
    log = Log(str(run.log), max_bytes=1 << 30, max_files=2)
    log.feed("stdout", b"first\n")
    log.feed("stdout", b"x" * 3_000_000)
    log.finish()
    for options in ({}, {"tail_lines": 1}, {"follow": True}):
        found = await chunks(tmp_path, **options)
        assert max(map(len, found)) < 128 * 1024
        assert b"".join(found).endswith(b"x" * 3_000_000 + b"\n")


async def test_a_line_has_one_timestamp(tmp_path: Path, run: RunDir) -> None:
    write(run, "P long ", "P longer ", "F line", "F four")
    assert await read(tmp_path, timestamps=True) == f"{STAMP.format(0)} long longer line\n{STAMP.format(3)} four\n"


async def test_a_carriage_return_ends_no_line(tmp_path: Path, run: RunDir) -> None:
    write(run, "F 10 %\r20 %\r", "F done")
    assert await read(tmp_path) == "10 %\r20 %\r\ndone\n"
    assert await read(tmp_path, tail_lines=2) == "10 %\r20 %\r\ndone\n"


async def test_the_tail_is_read_from_the_end(tmp_path: Path, run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    with run.log.open("ab") as file:
        for number in range(5000):
            file.write(f"{STAMP.format(0)} stdout F {number} {'x' * 1000}\n".encode())
    seen = 0

    def counting(fd: int, size: int) -> bytes:
        nonlocal seen
        data = os_read(fd, size)
        seen += len(data)
        return data

    os_read = os.read
    monkeypatch.setattr("unisono.agent.logs.os.read", counting)
    assert (await read(tmp_path, tail_lines=3)).split()[::2] == ["4997", "4998", "4999"]
    assert seen < 10_000


@given(
    records=st.lists(st.lists(st.sampled_from(["P", "F"]), max_size=6), min_size=1, max_size=4),
    wanted=st.integers(0, 12),
)
def test_any_tail_over_any_renaming(records: list[list[str]], wanted: int) -> None:
    with TemporaryDirectory() as folder:
        root = Path(folder)
        run = spawned(root)
        text, number = "", 0
        for age, part in zip(range(len(records) - 1, -1, -1), records, strict=True):
            path = run.log if age == 0 else run.log.with_name(f"log.{age}")
            with path.open("w") as file:
                for kind in part:
                    file.write(f"{STAMP.format(0)} stdout {kind} {number};\n")
                    text += f"{number};" + ("\n" if kind == "F" else "")
                    number += 1
        lines = text.splitlines(keepends=True)
        expected = "".join(lines[-wanted:]) if wanted else ""
        assert asyncio.run(read(root, tail_lines=wanted)) == expected
        assert asyncio.run(read(root)) == text


def test_the_end_of_a_log(run: RunDir) -> None:
    write(run, *(f"F line {n}" for n in range(100)))
    assert last_lines(run).splitlines() == [f"line {n}" for n in range(20, 100)]


def test_exit_records_survive_any_message(run: RunDir) -> None:
    end = Exit(128, 1.5, 2.5, 0, "StartError", 'exec: "Zürich=\\n"\n: not found')
    run.write_exit(end)
    assert run.exit() == end
