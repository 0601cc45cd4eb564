"""Functions as gangs of real processes: what goes in, what comes out, what goes wrong."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import gang_functions as functions
import pytest

from support.plane import wait_until
from unisono.api.kinds import PODS
from unisono.kube.http import HttpClient
from unisono.sdk import CannotShip, Client, JobFailed, RemoteError, WaitTimeout, gang
from unisono.sdk import map as spread

pytestmark = [pytest.mark.processes, pytest.mark.xdist_group("sdk")]

PATIENCE = 600


def test_each_rank_knows_its_place_and_answers(machine: Client, capsys: pytest.CaptureFixture[str]) -> None:
    place = gang(workers=3, cpu=0.1, client=machine, timeout=PATIENCE)(functions.place)
    results = place(10, offset=1)
    assert [value for value, _, _ in results] == [1, 11, 21]
    assert {size for _, size, _ in results} == {3}
    assert len({pid for _, _, pid in results}) <= 3
    told = capsys.readouterr().out.splitlines()
    assert sorted(told) == [f"[{n}] rank {n} speaks" for n in range(3)]
    assert [view.name for view in machine.list() if view.name.startswith("place-")] == []


def test_ranks_talk_to_each_other(machine: Client) -> None:
    assert gang(workers=4, client=machine, timeout=PATIENCE)(functions.total)() == [6] * 4


def test_objects_of_own_classes_travel(machine: Client) -> None:
    moved = gang(client=machine, timeout=PATIENCE)(functions.moved)
    assert moved(functions.Point(1, 2)) == [functions.Point(2, 2)]
    assert moved.function(functions.Point(0, 0)) == functions.Point(1, 0)


def test_large_results_arrive_whole(machine: Client) -> None:
    (result,) = gang(client=machine, timeout=PATIENCE, echo=False)(functions.large)()
    assert len(result) == 256 * 4000 + 300_000
    assert result.startswith(bytes(range(256)))


def test_results_that_no_log_could_carry_travel_as_files(machine: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    mkdtemp = tempfile.mkdtemp
    monkeypatch.setattr(tempfile, "mkdtemp", lambda **options: made.append(mkdtemp(**options)) or made[-1])
    results = gang(workers=2, client=machine, timeout=PATIENCE)(functions.huge)()
    assert [len(result) for result in results] == [5 * 1024 * 1024] * 2
    assert results[0] != results[1]
    assert not any(Path(folder).exists() for folder in made if "unisono-results-" in folder)


def test_an_error_of_a_rank_is_raised_here_and_the_job_stays_for_a_while(machine: Client) -> None:
    with pytest.raises(RemoteError, match=r"Rank 1 raised KeyError: 'lost'") as raised:
        gang(workers=2, name="kept", client=machine, timeout=PATIENCE)(functions.fails_on_one)()
    assert raised.value.rank == 1
    assert 'raise KeyError("lost")' in raised.value.traceback
    (kept,) = [view for view in machine.list() if view.name.startswith("kept-")]
    assert not kept.succeeded
    machine.delete(kept)


def test_a_gang_that_loses_a_pod_starts_again_as_a_whole(machine: Client, tmp_path: Path) -> None:
    again = gang(workers=2, name="evicted", timeout=PATIENCE)(functions.interrupted)
    future = machine.start(again.aio(machine.aio, str(tmp_path)))
    wait_until("both ranks are at work", lambda: len(list(tmp_path.iterdir())) == 2)

    async def evict() -> None:
        client = HttpClient(machine.endpoint().config)
        pods = await client.list(PODS, "default")
        victim = next(pod for pod in pods.items if pod.metadata.name.startswith("evicted-"))
        await client.delete(PODS, victim.metadata.name, "default", grace_seconds=0)
        await client.close()

    asyncio.run(evict())
    assert future.result(timeout=PATIENCE) == ["again", "again"]


@pytest.mark.parametrize(
    ("function", "error", "told"),
    [
        (functions.vanishes, JobFailed, "exit code 7"),
        (functions.unpicklable, RemoteError, "pickle"),
    ],
)
def test_what_brings_no_result_says_why(machine: Client, function: Any, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        gang(client=machine, timeout=PATIENCE)(function)()


def test_a_gang_that_never_fits_gives_up_and_takes_its_job_away(machine: Client) -> None:
    never = gang(workers=2, cpu=10_000, timeout=3, client=machine)(functions.place)
    with pytest.raises(WaitTimeout, match="job place-"):
        never(1)
    assert [view.name for view in machine.list() if view.name.startswith("place-")] == []


def test_map_keeps_the_order_of_its_items(machine: Client) -> None:
    assert spread(functions.square, range(7), workers=3, client=machine, timeout=PATIENCE) == [
        0, 1, 4, 9, 16, 25, 36,
    ]  # fmt: skip
    assert spread(functions.square, [], client=machine) == []
    with pytest.raises(RemoteError, match="ValueError: 3 is odd"):
        spread(functions.even_only, [2, 3, 4], client=machine, timeout=PATIENCE)


@pytest.mark.parametrize(
    ("function", "arguments", "told"),
    [
        (lambda: 1, (), "define it with 'def'"),
        (functions.square, (lambda: 1,), "arguments cannot be pickled"),
        (functions.square, (bytes(2_000_000),), "900000 fit"),
    ],
)
def test_what_cannot_travel_is_refused_before_a_job_is_made(
    machine: Client, function: Any, arguments: tuple[Any, ...], told: str
) -> None:
    with pytest.raises(CannotShip, match=told):
        gang(client=machine)(function)(*arguments)


def test_options_that_do_not_exist_are_refused() -> None:
    with pytest.raises(CannotShip, match="cpus"):
        gang(workers=2, cpus=1)
    with pytest.raises(CannotShip, match="1 or more"):
        gang(workers=0, client=None)


async def test_the_asynchronous_form(machine: Client) -> None:
    squared = gang(workers=2, client=machine, timeout=PATIENCE)(functions.square)
    future = machine.start(squared.aio(machine.aio, 5))
    assert await asyncio.wrap_future(future) == [25, 25]


def script(tmp_path: Path, text: str, name: str = "train.py") -> subprocess.CompletedProcess[str]:
    file = tmp_path / name
    file.write_text(textwrap.dedent(text))
    return subprocess.run(
        [sys.executable, str(file)], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def test_a_script_is_sent_as_its_file(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("def twice(value):\n    return 2 * value\n")
    done = script(
        tmp_path,
        """
        from dataclasses import dataclass
        from helper import twice
        from unisono.sdk import gang, rank

        @dataclass
        class Result:
            value: int

        @gang(workers=2, cpu=0.1)
        def train(base: int) -> Result:
            return Result(twice(base) + rank())

        if __name__ == "__main__":
            print(train(20))
        """,
    )
    assert done.stdout == "[Result(value=40), Result(value=41)]\n", done.stderr


def test_a_call_outside_of_the_main_guard_is_explained(tmp_path: Path) -> None:
    done = script(
        tmp_path,
        """
        from unisono.sdk import gang

        @gang()
        def train():
            return 1

        train()
        """,
    )
    assert 'call it below if __name__ == "__main__"' in done.stderr
    assert done.returncode == 1


def test_functions_of_a_notebook_travel_with_what_they_use(tmp_path: Path) -> None:
    """A notebook's __main__ has no file, and its cells' source is known to linecache."""
    done = script(
        tmp_path,
        '''
        import linecache, sys, types
        CELLS = [
            """
        import math as m
        from collections import Counter
        from unisono.sdk import gang
        factor = 3
        class Box:
            def __init__(self, value): self.value = value
        box = Box(7)
        def helper(n):
            return m.floor(n) * factor + box.value
        """,
            """
        @gang(workers=2, cpu=0.1)
        def cell(n: int, other) -> tuple[int, Counter]:
            return helper(n) + other.value, Counter(str(n))
        """,
            "class Late(Box): pass",
            "result = cell(11.5, Late(1))",
            "print(result)",
        ]
        notebook = types.ModuleType("__main__")
        sys.modules["__main__"] = notebook
        for number, text in enumerate(CELLS):
            name = f"<cell-{number}>"
            text = "\\n".join(line.removeprefix("        ") for line in text.splitlines())
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
            exec(compile(text, name, "exec"), notebook.__dict__)
        ''',
    )
    assert done.stdout == "[(41, Counter({'1': 2, '.': 1, '5': 1})), (41, Counter({'1': 2, '.': 1, '5': 1}))]\n", (
        done.stderr
    )
