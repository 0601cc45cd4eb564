"""The known differences between the embedded server and a real one: ``tests/kubectl/differences.yaml``."""

from __future__ import annotations

import re
from dataclasses import dataclass

import yaml

from support.transcript.script import KUBECTL

LIST = KUBECTL / "differences.yaml"


@dataclass(frozen=True)
class Known:
    """A difference that users may see.

    Attributes:
        text: what it is and why, as the documentation says it.
        scenes: the scenes where it shows.
        patterns: regular expressions of which one matches the whole line of such a difference.

    """

    text: str
    scenes: tuple[str, ...]
    patterns: tuple[re.Pattern[str], ...]

    def covers(self, line: str) -> bool:
        return any(pattern.search(line) for pattern in self.patterns)


def known() -> list[Known]:
    """Everything that is listed."""
    return [
        Known(" ".join(entry["text"].split()), tuple(entry["scenes"]), tuple(map(re.compile, entry["lines"])))
        for entry in yaml.safe_load(LIST.read_text())
    ]
