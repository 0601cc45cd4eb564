"""Evictions in a cluster in which nothing else happens: they come to an end, and who they were for runs."""

from __future__ import annotations

from benchmarks.check.facts import Facts, Turn

_PATIENCE = 3
_CALM = 2


class Quarrel:
    """Told of one cycle after the other, the first of which may have evicted pods."""

    def __init__(self, turn: Turn) -> None:
        self._awaited: dict[str, tuple[int, int]] = {}
        self._cycle = 0
        self._evicting: list[tuple[int, str, str]] = []
        self._expect(turn)

    def seen(self, turn: Turn) -> list[str]:
        """Beneficiaries that had time enough and do not run."""
        self._cycle += 1
        found = []
        fresh = {key for key, _ in turn.binds}
        for name, (since, wanted) in list(self._awaited.items()):
            have = _have(turn.facts, name, fresh)
            if have >= wanted:
                del self._awaited[name]
            elif self._cycle - since >= _PATIENCE:
                found.append(f"pods were evicted {_PATIENCE} cycles ago for {name}, which has {have} of {wanted} pods")
        self._expect(turn)
        return found

    def end(self) -> list[str]:
        """Evictions that go on."""
        late = [(key, name) for cycle, key, name in self._evicting if cycle > self._cycle - _CALM]
        return [f"pod {key} is evicted for {name} after {self._cycle} cycles without any change" for key, name in late]

    def _expect(self, turn: Turn) -> None:
        fresh = {key for key, _ in turn.binds}
        for key, action, name in turn.evictions:
            self._evicting.append((self._cycle, key, name))
            victim = turn.facts.pods.get(key)
            if action == "shuffle" or victim is None or victim.group == name or name in self._awaited:
                continue
            minimum = turn.facts.all("PodGroup")[name]["spec"].get("minMember") or 0
            self._awaited[name] = (self._cycle, max(minimum, _have(turn.facts, name, fresh) + 1))


def _have(facts: Facts, group: str, fresh: set[str]) -> int:
    return sum(1 for pod in facts.members(group) if pod.counts or pod.key in fresh)
