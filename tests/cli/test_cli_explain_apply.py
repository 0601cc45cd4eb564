"""``unisono explain job/x --apply N``: which fix is carried out, and what keeps it from being."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from click.testing import CliRunner

from unisono.api.kinds import JOBS, QUEUES
from unisono.cli import connection, explaining
from unisono.cli.commands.explain import command
from unisono.sdk.fixes import applying
from unisono.sdk.fixes.fix import Fix, Operation
from unisono.sdk.reasons.explanation import Explanation

OPEN = Fix(
    "open queue q",
    True,
    {"kind": "OpenQueue", "queue": "q"},
    (Operation("patch", QUEUES, "q", "", {"spec": {"weight": 2}}),),
)
AGAIN = Fix(
    "request at most cpu 8 per pod",
    True,
    {"kind": "RequestAtMost", "amounts": {"cpu": 8000}},
    (Operation("replace", JOBS, "train", "default", [{"op": "remove", "path": "/spec/queue"}], "json"),),
)


@pytest.fixture
def applied(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """The fixes that reach the server, and whether only as a trial."""
    found: list[tuple[str, bool]] = []

    @asynccontextmanager
    async def connect(_: object) -> AsyncIterator[Any]:
        yield object()

    async def explain(*_: object, **__: object) -> Explanation:
        return Explanation("Job", "train", "job/train", "its phase is Pending", fixes=[OPEN, AGAIN])

    async def apply_fix(_: object, fix: Fix, *, dry_run: bool = False) -> None:
        found.append((fix.text, dry_run))

    monkeypatch.setattr(connection, "connect", connect)
    monkeypatch.setattr(connection, "namespace_of", lambda _: "default")
    monkeypatch.setattr(explaining, "explain", explain)
    monkeypatch.setattr(applying, "apply_fix", apply_fix)
    return found


@pytest.mark.parametrize(
    ("arguments", "sent", "said"),
    [
        (["--apply", "1", "--yes"], [(OPEN.text, False)], "Done."),
        (["--apply", "2", "--yes"], [(AGAIN.text, False)], "Done."),
        (["--apply", "2", "--dry-run"], [(AGAIN.text, True)], "nothing was changed"),
        (["--apply", "3", "--yes"], [], "2 fixes are known for job/train"),
        (["--apply", "1"], [], "say --yes"),
        (["--yes"], [], "go with --apply N"),
        ([], [], "apply a fix with: unisono explain job/train -n default --apply N (in a script with --yes)"),
        ([], [], "deletes job.batch.volcano.sh/train and makes it again: its pods, age and place in line are gone"),
        (["--apply", "2", "--yes"], [(AGAIN.text, False)], "deletes job.batch.volcano.sh/train and makes it again"),
    ],
)
def test_the_fix_of_that_number_is_carried_out(
    applied: list[tuple[str, bool]], arguments: list[str], sent: list[tuple[str, bool]], said: str
) -> None:
    result = CliRunner().invoke(command, ["job/train", *arguments])
    assert applied == sent
    assert said in result.output
    assert (result.exit_code == 0) is (bool(sent) or not arguments)


def test_the_commands_of_the_fix_are_shown_before_it_is_carried_out(applied: list[tuple[str, bool]]) -> None:
    output = CliRunner().invoke(command, ["job/train", "--apply", "2", "--yes"]).output
    assert output.index("fix 2:   request at most cpu 8 per pod") < output.index("Done.")
    assert "kubectl" in output
    assert "fix 1" not in output
