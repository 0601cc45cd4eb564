"""What ``make audit`` says of pip-audit's report: it names packages for which there are no advisories."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from support.plane import REPOSITORY

CLEAN = {"name": "click", "version": "8.1", "vulns": []}
UNKNOWN = {"name": "rich", "skip_reason": "Dependency not found on PyPI and could not be audited: rich (15)"}
BAD = {"name": "aiohttp", "version": "3.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3.1"]}]}


def audit() -> Any:
    spec = importlib.util.spec_from_file_location("audit", REPOSITORY / "scripts" / "audit.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("packages", "said", "code"),
    [
        ([CLEAN], "2 packages audited", 0),
        ([UNKNOWN], "NOT AUDITED: no advisories could be had for 2 of 2 packages", 0),
        ([CLEAN, UNKNOWN], "NOT AUDITED: no advisories could be had for 2 of 4 packages", 0),
        ([CLEAN, BAD], "aiohttp 3.0 has PYSEC-1; fixed in 3.1", 1),
        ([], "pip-audit has seen no packages", 1),
    ],
)
def test_what_an_audit_says(packages: list[dict[str, Any]], said: str, code: int) -> None:
    lines, answer = audit().judge({"dependencies": packages * 2}, "run.lock")
    assert said in "\n".join(lines)
    assert answer == code
