"""What is said of a data file that cannot be used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from unisono.errors import UnisonoError

# How many findings a message lists.
_LISTED = 20


class StoreError(UnisonoError):
    """The data file cannot be used; the message names it and says what to do."""


class DiskFullError(StoreError):
    """There is no room for a change; nothing of it was stored, and the file is as it was."""


class StoreInUse(StoreError):
    """Another process has the data file open."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        what: ``ConfigMap default/a``, ``history`` or ``file``.
        why: what is wrong with it.
        lost: an object that cannot be served as it was last stored.

    """

    what: str
    why: str
    lost: bool = False

    def __str__(self) -> str:
        return f"{self.what}: {self.why}"


class DamagedStore(StoreError):
    """The data file is damaged; ``findings`` say where."""

    def __init__(self, path: Path | str, findings: Sequence[Finding], objects: int) -> None:
        self.path, self.findings, self.objects = Path(path), tuple(findings), objects
        lost = sum(finding.lost for finding in findings)
        count = f"{lost} of {objects + lost} objects cannot be read" if lost else "every object can be read"
        ordered = sorted(findings, key=lambda finding: not finding.lost)
        lines = [f"  {finding}" for finding in ordered[:_LISTED]]
        if len(findings) > _LISTED:
            lines.append(f"  and {len(findings) - _LISTED} more")
        super().__init__(f"{path} is damaged; {count}, nothing was changed:\n" + "\n".join(lines))


class LostWrites(StoreError):
    """The data file lacks changes that were acknowledged."""
