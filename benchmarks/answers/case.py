"""Cases as they stand in ``cases/*.yaml``.

A case describes one stuck job::

    about: one sentence
    nodes: [{name: n, count: 3, capacity: {cpu: 8, memory: 32Gi}}]     # as in `unisono up --nodes`
    scheduler: |                                                       # configuration; without it the default
      actions: ...
    objects: [...]                                                     # Kubernetes objects, created in this order;
                                                                       # before the one in question others get time
    steps: [...]                                                       # afterwards, see `steps.py`
    question: job/train                                                # as users type it
    root: ['regular expression', ...]                                  # all are found in the first line
    never: ['regular expression', ...]                                 # none is found in the whole answer
    fixes: ['Queue/q spec.capability', ...]                            # changes that must be offered, see `fixes.py`
    starts_with: [...]                                                 # steps that are known to start the job
    gang: 4                                                            # pods that must run then; default: all
    wait: 30                                                           # virtual seconds for which it is left alone
    slow: 90                                                           # virtual seconds that a fix takes to work
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

FOLDER = Path(__file__).parent / "cases"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml, ten times as fast, where it is
Step = dict[str, Any]


class _File(msgspec.Struct, forbid_unknown_fields=True):
    about: str
    question: str
    root: list[str]
    starts_with: list[Step]
    objects: list[dict[str, Any]] = []
    nodes: list[dict[str, Any]] = []
    scheduler: str = ""
    steps: list[Step] = []
    never: list[str] = []
    fixes: list[str] = []
    gang: int = 0
    wait: float = 0.0
    slow: float = 0.0


@dataclass(frozen=True, slots=True)
class Case:
    """One stuck job; the fields are those of the file, and ``name`` is the file's name without its ending."""

    name: str
    about: str
    question: str
    root: list[str]
    starts_with: list[Step]
    objects: list[dict[str, Any]]
    nodes: list[dict[str, Any]]
    scheduler: str
    steps: list[Step]
    never: list[str]
    fixes: list[str]
    gang: int
    wait: float
    slow: float = 0.0


def load(path: Path) -> Case:
    """Read one case.

    Raises:
        msgspec.ValidationError: a field is missing, unknown or of another type.
    """
    found = msgspec.convert(yaml.load(path.read_text(), _LOADER), _File)
    return Case(path.stem, **msgspec.structs.asdict(found))


def names(folder: Path = FOLDER) -> list[str]:
    """The names of the folder's cases, sorted; no file is read."""
    return sorted(path.stem for path in folder.glob("*.yaml"))


def named(name: str, folder: Path = FOLDER) -> Case:
    """One case by its name.

    Raises:
        FileNotFoundError: the folder has none of this name.
    """
    return load(folder / f"{name}.yaml")


def cases(pattern: str = "", folder: Path = FOLDER) -> Iterator[Case]:
    """All cases of the folder whose names contain ``pattern``, by name."""
    return (named(name, folder) for name in names(folder) if pattern in name)
