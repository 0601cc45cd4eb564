"""Other people's Python clients submit a job, follow it to its end, and clean up."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytestmark = pytest.mark.clients


def test_the_official_client_with_types_and_custom_objects(run: Callable[..., str]) -> None:
    assert run("official.py", "official").split()[-1] == "Completed"


def test_the_official_dynamic_client(run: Callable[..., str]) -> None:
    assert run("dynamic.py", "dynamic").split()[-1] == "Completed"


def test_kr8s(run: Callable[..., str]) -> None:
    assert "+unisono" in run("with_kr8s.py", "kr8s")


def test_lightkube(run: Callable[..., str]) -> None:
    assert run("with_lightkube.py", "lightkube") == "done\n"
