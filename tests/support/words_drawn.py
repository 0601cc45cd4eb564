"""Every honoured word, drawn on every place of an object of every kind of job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from support.job_objects import small
from unisono.api import keys
from unisono.jobkinds.kind import JobKind
from unisono.jobkinds.paths import put, walk
from unisono.jobkinds.registry import ALL
from unisono.jobkinds.word_places import READ_AT, Part

_GIVEN = {
    keys.PREEMPTABLE: "false",
    keys.REVOCABLE_ZONE: "*",
    keys.COOLDOWN_TIME: "5m",
    keys.SLA_WAITING_TIME: "1h",
    keys.NUMA_TOPOLOGY_POLICY: "best-effort",
    keys.TASK_TOPOLOGY_AFFINITY: "t,t",
    keys.TASK_TOPOLOGY_ANTI_AFFINITY: "t",
    keys.TASK_TOPOLOGY_ORDER: "t",
    keys.NETWORK_TOPOLOGY_MODE: "hard",
    keys.QOS_LEVEL: "LC",
    keys.QUOTA_BURST: "true",
    keys.SCORING_WEIGHT: '{"cpu":1}',
    keys.SAFE_TO_EVICT: "false",
    keys.DO_NOT_DISRUPT: "true",
    keys.VGPU_GROUP_POLICY: "spread",
    keys.EXCLUSIVE_TOPOLOGY: keys.HOSTNAME,
}
# Their budget is the one or the other.
VALUES = {key: _GIVEN.get(key, "1") for key in READ_AT if key != keys.JDB_MAX_UNAVAILABLE}
_NO_LABELS = frozenset(
    key for key, text in VALUES.items() if not text.replace("-", "").replace(".", "").isalnum() or "/" in text
)
"""Words whose values can be in no label."""


class Drawn(NamedTuple):
    """An object with all words at one place."""

    kind: JobKind
    above: str
    part: Part
    words: frozenset[str]

    def body(self, namespace: str) -> dict[str, Any]:
        obj = small(self.kind, namespace)
        for path in [path for path, _ in walk(obj, self.above)] if self.above else [""]:
            at = f"{path}.metadata.{self.part}" if path else f"metadata.{self.part}"
            given = next((value for _, value in walk(obj, at)), {})
            put(obj, at, {**given, **{key: VALUES[key] for key in self.words}})
        return obj

    @property
    def name(self) -> str:
        return f"{self.kind.kind.resource}-{self.above or 'object'}-{self.part}"


def drawn() -> Iterator[Drawn]:
    """All of them."""
    parts: tuple[Part, Part] = ("annotations", "labels")
    for kind in ALL:
        for above in ("", *kind.inner, *kind.templates):
            for part in parts:
                words = VALUES.keys() - (_NO_LABELS if part == "labels" else frozenset())
                yield Drawn(kind, above, part, frozenset(words))
