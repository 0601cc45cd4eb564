"""What a claim for a volume or for devices lacks, in words and as a change."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import NamedTuple

from unisono.api.messages import resource_claim_not_found, volume_claim_not_found
from unisono.api.names import nearest
from unisono.engine.changes import Change, CreateClaim, UseClaim

_MOST_SHOWN = 3
"""Claims of a namespace up to which they are named."""


class Lack(NamedTuple):
    """What a claim lacks, and what would help.

    Attributes:
        what: what it lacks, for a claim that does not exist in the words of the filter that refuses it.
        remedy: what would help, in words.
        change: the same as a change, where one is known.
        absent: the claim does not exist.
        meant: name of the claim that is probably meant instead.
        elsewhere: another namespace that has a claim of this name.
    """

    what: str
    remedy: str
    change: Change | None = None
    absent: bool = False
    meant: str = ""
    elsewhere: str = ""

    @property
    def text(self) -> str:
        """What it lacks, and which name is probably meant."""
        if self.meant:
            return f"{self.what} (did you mean {self.meant}?)"
        return f"{self.what} ({self.elsewhere})" if self.elsewhere else self.what

    def text_after(self, reasons: Container[str]) -> str:
        """The same for readers who have been told ``reasons``."""
        if self.what in reasons:
            return f"did you mean {self.meant}?" if self.meant else self.elsewhere
        return f"also {self.text}" if self.absent else self.text


def absent(of: str, key: str, known: Iterable[str]) -> Lack:
    """A claim that does not exist, with a near miss in its namespace, or where there are others.

    Args:
        of: ``PersistentVolumeClaim`` or ``ResourceClaim``.
        key: of the claim.
        known: keys of those of its kind.
    """
    namespace, _, name = key.partition("/")
    spaces = [one.partition("/")[::2] for one in known]
    own = sorted(other for space, other in spaces if space == namespace)
    of_devices = of == "ResourceClaim"
    what = resource_claim_not_found(name) if of_devices else volume_claim_not_found(name)
    if near := nearest(name, own):
        use = UseClaim(of, name, near)
        return Lack(what, use.text(), use, absent=True, meant=near)
    others = sorted(space for space, other in spaces if other == name)
    there = f"there is {' and '.join(own)}" if 0 < len(own) <= _MOST_SHOWN else ""
    if others:
        there = f"it has to be in namespace {namespace} of the pods, and one of its name is in {others[0]}"
    remedy, change = f"create {'resource ' if of_devices else ''}claim {name}", CreateClaim(name)
    return Lack(what, remedy, None if of_devices else change, absent=True, elsewhere=there)
