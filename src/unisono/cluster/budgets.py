"""Budgets and prices of a cluster, as they are read."""

from __future__ import annotations

from unisono.api.budgets import Prices, Purse, Tally, prices_of, purse_of, tally_of
from unisono.api.groups.budgets import Budget
from unisono.cluster.calendar import ReadObjects


class Budgets(dict[str, Purse]):
    """Budgets by name.

    Attributes:
        tallies: what each had used when it was counted last, by name.
        version: moves with every change of what they say.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tallies: dict[str, Tally] = {}
        self.version = 0

    def put(self, obj: Budget) -> bool:
        """Add or change one; False where nothing differs that a cycle would decide differently for.

        Raises:
            ValueError: it breaks a rule.
        """
        purse = purse_of(obj)
        return self.set(purse, tally_of(obj, purse))

    def set(self, purse: Purse, tally: Tally) -> bool:
        """The same of one that has been read; a tally that is older than the known one changes nothing."""
        old, before = self.get(purse.name), self.tallies.get(purse.name)
        self[purse.name] = purse
        if before is None or old != purse or tally.at >= before.at:
            self.tallies[purse.name] = tally
        self.version += old != purse
        if old != purse or before is None:
            return True
        return tally.start != before.start or purse.used_up(tally.used) != purse.used_up(before.used)

    def remove(self, name: str) -> bool:
        """Forget one; False when it was unknown."""
        self.tallies.pop(name, None)
        removed = self.pop(name, None) is not None
        self.version += removed
        return removed

    def known(self) -> list[str]:
        """All names."""
        return list(self)


class PriceLists(ReadObjects[Prices]):
    """PriceLists by name."""

    def __init__(self) -> None:
        super().__init__(prices_of)
