"""What queues and cohorts of Kueue may hold: sums over flavors, and how far quota is lent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from unisono.cli.migrate.written import Amounts, amount

Spec = Mapping[str, Any]


def held(spec: Spec) -> bool:
    """Whether a ClusterQueue or a LocalQueue admits nothing."""
    return str(spec.get("stopPolicy") or "None") != "None"


@dataclass(frozen=True, slots=True)
class _Quota:
    flavor: str
    resource: str
    nominal: Fraction
    borrowed: Fraction | None
    lent: Fraction | None


def _each(spec: Spec) -> Iterator[_Quota]:
    for group in spec.get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            for each in flavor.get("resources") or ():
                limits = [each.get(name) for name in ("borrowingLimit", "lendingLimit")]
                borrowed, lent = (None if one is None else amount(one) for one in limits)
                yield _Quota(
                    str(flavor.get("name")), str(each.get("name")), amount(each.get("nominalQuota")), borrowed, lent
                )


class Quotas:
    """Specs of ClusterQueues and Cohorts by name; cohorts that only queues name are there, too."""

    def __init__(self, queues: Mapping[str, Spec], cohorts: Mapping[str, Spec]) -> None:
        self.queues = queues
        named = {str(spec.get("cohortName") or spec.get("cohort") or "") for spec in queues.values()}
        named |= {str(spec.get("parentName") or spec.get("parent") or "") for spec in cohorts.values()}
        self.cohorts: dict[str, Spec] = {name: {} for name in sorted(named - {""})} | dict(cohorts)

    def parent(self, name: str) -> str:
        """The cohort that a queue or a cohort is in; empty for none."""
        keys = ("cohortName", "cohort") if name in self.queues else ("parentName", "parent")
        spec = self.queues.get(name) or self.cohorts.get(name) or {}
        return next((str(spec[key]) for key in keys if spec.get(key)), "")

    def covered(self, name: str) -> set[str]:
        """Resources of which a queue has a quota, though it be 0."""
        return {each.resource for each in _each(self.queues[name])}

    def flavors(self, name: str) -> list[str]:
        """In the order in which they are tried."""
        return list(dict.fromkeys(each.flavor for each in _each(self.queues[name])))

    def nominal(self, name: str) -> Amounts:
        """Of a queue or a cohort, without those below it."""
        total = Amounts()
        for each in _each(self.queues.get(name) or self.cohorts.get(name) or {}):
            total[each.resource] = total.get(each.resource, Fraction(0)) + each.nominal
        return total

    def of_queue(self, name: str) -> tuple[Amounts, Amounts, Amounts]:
        """What a queue deserves, what of it is never lent, and its limits."""
        spec, deserved = self.queues[name], self.nominal(name)
        if held(spec):
            return Amounts(), Amounts(), dict.fromkeys(sorted({*deserved, "pods"}), Fraction(0))
        return deserved, self._kept(spec), self._most(spec, deserved, alone=not self.parent(name))

    def of_cohort(self, name: str) -> tuple[Amounts, Amounts, Amounts]:
        """The same of a cohort, which deserves its own quotas and those of all queues in it."""
        deserved, kept = self._total(name, frozenset())
        return deserved, kept, self._most(self.cohorts[name], deserved, alone=not self.parent(name))

    def of_flavor(self, name: str, flavor: str) -> Amounts:
        """The most that a queue holds of a flavor: its quota, and what it may borrow of what others lend."""
        most = Amounts()
        for each in _each(self.queues[name]):
            if each.flavor != flavor:
                continue
            others = sum((self._lent(other, each) for other in self._kin(name)), Fraction(0))
            most[each.resource] = each.nominal + (others if each.borrowed is None else min(others, each.borrowed))
        return most

    def _lent(self, other: str, quota: _Quota) -> Fraction:
        spec = self.queues.get(other) or self.cohorts.get(other) or {}
        same = [one for one in _each(spec) if (one.flavor, one.resource) == (quota.flavor, quota.resource)]
        return sum((one.nominal if one.lent is None else min(one.nominal, one.lent) for one in same), Fraction(0))

    def _kin(self, name: str) -> list[str]:
        """All others of the tree of cohorts that a queue is in, and these cohorts."""
        top = self._top(name)
        relatives = [each for each in (*self.queues, *self.cohorts) if each != name and self._top(each) == top]
        return relatives if self.parent(name) else []

    def _top(self, name: str) -> str:
        way = [name]
        while (above := self.parent(way[-1])) and above not in way:
            way.append(above)
        return way[-1]

    @staticmethod
    def _kept(spec: Spec) -> Amounts:
        kept = Amounts()
        for each in _each(spec):
            if each.lent is not None and each.nominal > each.lent:
                kept[each.resource] = kept.get(each.resource, Fraction(0)) + each.nominal - each.lent
        return kept

    @staticmethod
    def _most(spec: Spec, deserved: Amounts, *, alone: bool) -> Amounts:
        """No limit where any flavor of a resource may be borrowed without one."""
        if alone:
            return dict(deserved)
        quotas = list(_each(spec))
        unbound = {each.resource for each in quotas if each.borrowed is None}
        bound = {each.resource for each in quotas} - unbound
        borrowed = {
            name: sum((each.borrowed or Fraction(0) for each in quotas if each.resource == name), Fraction(0))
            for name in bound
        }
        return {name: deserved[name] + borrowed[name] for name in deserved if name in bound}

    def _total(self, name: str, above: frozenset[str]) -> tuple[Amounts, Amounts]:
        """What a queue or a cohort and all below it deserve, and what of it is never lent."""
        if name in self.queues:
            deserved, kept, _ = self.of_queue(name)
            return deserved, kept
        deserved, kept = self.nominal(name), Amounts()
        for each in (*self.queues, *self.cohorts):
            if self.parent(each) != name or each in above:
                continue
            for mine, theirs in zip((deserved, kept), self._total(each, above | {name}), strict=True):
                for key, value in theirs.items():
                    mine[key] = mine.get(key, Fraction(0)) + value
        # What it does not lend to those above it, of all that it has.
        for quota in _each(self.cohorts[name]):
            if quota.lent is not None and deserved[quota.resource] > quota.lent:
                least = kept.get(quota.resource, Fraction(0))
                kept[quota.resource] = max(least, deserved[quota.resource] - quota.lent)
        return deserved, kept
