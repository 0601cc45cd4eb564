"""Components run on uvloop where it is installed, and on asyncio's own loop elsewhere."""

from __future__ import annotations

import asyncio
import sys

import pytest

from unisono.standalone import loop


async def name_of_loop() -> str:
    await asyncio.sleep(0)
    return type(asyncio.get_running_loop()).__module__


def test_without_uvloop_the_ordinary_loop_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert loop.run(name_of_loop()).startswith("asyncio")


def test_with_uvloop_its_loop_runs() -> None:
    pytest.importorskip("uvloop")
    assert loop.run(name_of_loop()).startswith("uvloop")


def test_what_the_work_raises_comes_out() -> None:
    async def broken() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        loop.run(broken())
