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


class Transport:
    def __init__(self, *, closing: bool) -> None:
        self.closing = closing

    def is_closing(self) -> bool:
        return self.closing


@pytest.mark.parametrize(
    ("error", "closing", "told"),
    [
        (RuntimeError("unable to perform operation; the handler is closed"), True, False),
        (RuntimeError("unable to perform operation; the handler is closed"), False, False),
        (RuntimeError("unable to perform operation"), False, True),
        (KeyError("x"), True, True),
    ],
)
def test_a_connection_that_was_closed_is_no_failure(
    error: Exception, closing: bool, told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail() -> None:
        context = {"message": "Fatal error", "exception": error, "transport": Transport(closing=closing)}
        asyncio.get_running_loop().call_exception_handler(context)

    loop.run(fail())
    assert [record.message.partition("\n")[0] for record in caplog.records if record.name == "asyncio"] == (
        ["Fatal error"] if told else []
    )
