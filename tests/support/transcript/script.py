"""Scenes: what kubectl is told to do, one YAML file each in ``tests/kubectl/scenes``."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

KUBECTL = Path(__file__).parents[2] / "kubectl"
SCENES = KUBECTL / "scenes"
TRANSCRIPTS = KUBECTL / "transcripts"


@dataclass(frozen=True)
class Step:
    """One command.

    Attributes:
        name: how transcripts call it.
        words: kubectl's arguments.
        stdin: what it reads.
        edit: a sed expression that plays the editor.
        quiet: whether only writes are compared, since how often kubectl asks again depends on the moment.
        until_ok: whether the command is repeated until it succeeds; only the last attempt counts.
        fields: whether the fields that it prints (``explain``) are compared.

    """

    name: str
    words: tuple[str, ...]
    stdin: str = ""
    edit: str = ""
    quiet: bool = False
    until_ok: bool = False
    fields: bool = False


@dataclass(frozen=True)
class Scene:
    """Steps that work on one namespace and, where they say so, on cluster-scoped objects of their own."""

    name: str
    steps: tuple[Step, ...]
    needs: tuple[str, ...]
    leaves: tuple[str, ...]

    @property
    def namespace(self) -> str:
        return f"scene-{self.name}"


def load(path: Path) -> Scene:
    """Read a scene file.

    Raises:
        ValueError: a step has an unknown field.

    """
    content = yaml.safe_load(path.read_text())
    files = {name: _text(body) for name, body in (content.get("files") or {}).items()}
    steps = [_step(entry, files) for entry in content["steps"]]
    return Scene(path.stem, tuple(steps), tuple(content.get("needs") or ()), tuple(content.get("leaves") or ()))


def _step(entry: Any, files: dict[str, str]) -> Step:
    if isinstance(entry, str):
        return Step(entry, tuple(shlex.split(entry)))
    known = {"run", "stdin", "edit", "quiet", "until_ok", "fields"}
    if set(entry) - known:
        raise ValueError(f"steps have no field {sorted(set(entry) - known)}")
    stdin = entry.get("stdin", "")
    words = tuple(shlex.split(entry["run"]))
    name = f"{entry['run']} < {stdin}" if isinstance(stdin, str) and stdin in files else entry["run"]
    rest = {key: entry[key] for key in ("edit", "quiet", "until_ok", "fields") if key in entry}
    return Step(name, words, files.get(stdin, stdin), **rest)


def _text(body: Any) -> str:
    if isinstance(body, str):
        return body
    if isinstance(body, list):
        return str(yaml.safe_dump_all(body, sort_keys=False))
    return str(yaml.safe_dump(body, sort_keys=False))


def scenes() -> list[Scene]:
    """All scenes, by name."""
    return [load(path) for path in sorted(SCENES.glob("*.yaml"))]
