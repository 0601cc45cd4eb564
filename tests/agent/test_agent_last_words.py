"""Logs of pods that are gone: readable for a while, by their own name only, and then forgotten."""

from __future__ import annotations

import asyncio
from pathlib import Path

from support.virtual_clock import VirtualClock
from unisono.agent.layout import Layout, PodRecord
from unisono.agent.logs import KEPT_SECONDS, FileLogSource, LastWords


def ended(root: Path, uid: str = "u", *, started: bool = True) -> Layout:
    """A pod that has written a line and has a volume."""
    layout = Layout(root)
    layout.create()
    directory = layout.pod(uid)
    directory.volume("scratch").mkdir(parents=True)
    directory.write_record(PodRecord("default", "p", uid, 0.0))
    if started:
        run = directory.new_run("main", 0)
        (run.path / "lock").touch()
        run.log.write_text("2023-11-14T22:13:20.000000000Z stdout F last words\n")
    return layout


async def test_the_log_can_be_read_until_the_time_is_over(tmp_path: Path) -> None:
    clock, layout = VirtualClock(), ended(tmp_path)
    words, logs = LastWords(layout, clock), FileLogSource(tmp_path, clock)
    task = asyncio.create_task(words.run())
    words.keep("u")
    assert layout.pods() == []
    assert not layout.gone_pod("u").volume("scratch").exists()
    assert logs.keeps("default", "p", "u", "main")
    assert [chunk async for chunk in logs.open("default", "p", "u", "main")] == [b"last words\n"]
    await clock.advance(KEPT_SECONDS * 0.9)
    assert logs.keeps("default", "p", "u", "main")
    await clock.advance(KEPT_SECONDS)
    assert not logs.keeps("default", "p", "u", "main")
    assert layout.gone_pods() == []
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_only_its_own_name_opens_it(tmp_path: Path) -> None:
    clock, layout = VirtualClock(), ended(tmp_path)
    LastWords(layout, clock).keep("u")
    logs = FileLogSource(tmp_path, clock)
    assert not logs.keeps("other", "p", "u", "main")
    assert not logs.keeps("default", "q", "u", "main")
    assert not logs.keeps("default", "p", "u", "side")


def test_a_pod_that_never_ran_leaves_nothing(tmp_path: Path) -> None:
    layout = ended(tmp_path, started=False)
    LastWords(layout, VirtualClock()).keep("u")
    assert layout.pods() == layout.gone_pods() == []


def test_a_new_agent_forgets_what_an_earlier_one_kept(tmp_path: Path) -> None:
    layout = ended(tmp_path)
    LastWords(layout, VirtualClock()).keep("u")
    assert [directory.uid for directory in layout.gone_pods()] == ["u"]
    LastWords(layout, VirtualClock()).clear()
    assert layout.gone_pods() == []
