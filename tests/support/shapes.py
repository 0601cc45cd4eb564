"""The shapes of public manifests, and a whole control plane on virtual time that runs them."""

from __future__ import annotations

import asyncio
import copy
import sys
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from support.plane import REPOSITORY
from unisono.api.yaml import load_all

sys.path.append(str(REPOSITORY))
case: Any = import_module("benchmarks.answers.case")
plane: Any = import_module("benchmarks.answers.plane")
virtual: Any = import_module("unisono.standalone.shadow")

FILES = sorted((REPOSITORY / "tests" / "manifests" / "shapes").glob("*.yaml"))
SHAPES: list[dict[str, Any]] = [
    shape for file in FILES for document in load_all(file.read_text(), file=file.name) for shape in document.value
]
ROOM = {"cpu": "128", "memory": "1Ti", "pods": "900", "nvidia.com/gpu": "16"}
NODES = [{"name": f"n{number}", "capacity": ROOM} for number in range(6)]


def run(folder: Path, story: Callable[[Any], Awaitable[None]], nodes: list[dict[str, Any]] = NODES) -> None:
    """Tell a story to a plane with simulated nodes."""

    async def told() -> None:
        given = case.Case("shapes", "", "namespace/default", [], [], [], nodes, "", [], [], [], 0, 0.0)
        async with plane.plane(given, folder, plane.unadvised) as made:
            await story(made)

    with asyncio.Runner(loop_factory=virtual.VirtualLoop) as runner:
        runner.run(told())


def placed(obj: dict[str, Any], namespace: str) -> dict[str, Any]:
    """An object of a namespace, which may be changed."""
    found = copy.deepcopy(obj)
    found.setdefault("metadata", {})["namespace"] = namespace
    return found
