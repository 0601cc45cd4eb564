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


def absent_volume(key: str, known: Iterable[str]) -> Lack:
    """A PersistentVolumeClaim that does not exist, with a near miss in its namespace."""
    known = list(known)
    name, near = _near_miss(key, known)
    what = volume_claim_not_found(name)
    if near:
        use = UseClaim("PersistentVolumeClaim", name, near)
        return Lack(what, use.text(), use, absent=True, meant=near)
    return Lack(what, f"create claim {name}", CreateClaim(name), absent=True, elsewhere=_elsewhere(key, known))


def absent_devices(key: str, known: Iterable[str]) -> Lack:
    """A ResourceClaim that does not exist, with a near miss in its namespace."""
    known = list(known)
    name, near = _near_miss(key, known)
    what = resource_claim_not_found(name)
    if near:
        use = UseClaim("ResourceClaim", name, near)
        return Lack(what, use.text(), use, absent=True, meant=near)
    return Lack(what, f"create resource claim {name}", absent=True, elsewhere=_elsewhere(key, known))


def _elsewhere(key: str, known: Iterable[str]) -> str:
    """That a claim of the same name is in another namespace, where no pod of this one can use it; else what is here."""
    namespace, _, name = key.partition("/")
    known = list(known)
    others = sorted(space for space, _, other in (one.partition("/") for one in known) if other == name)
    own = sorted(one.removeprefix(f"{namespace}/") for one in known if one.startswith(f"{namespace}/"))
    if not others and 0 < len(own) <= _MOST_SHOWN:
        return f"there is {' and '.join(own)}"
    return f"it has to be in namespace {namespace} of the pods, and one of its name is in {others[0]}" if others else ""


def _near_miss(key: str, known: Iterable[str]) -> tuple[str, str]:
    """Name of a claim, and a similar one in its namespace (``""`` for none)."""
    namespace, _, name = key.partition("/")
    return name, nearest(name, (one.partition("/")[2] for one in known if one.startswith(f"{namespace}/")))
