"""When a node's disk counts as full: thresholds in the words of the kubelet's ``--eviction-hard``. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from unisono.api.quantity import to_int
from unisono.errors import ConfigError, UnisonoError

Signal = Literal["nodefs.available", "nodefs.inodesFree"]


@dataclass(frozen=True, slots=True)
class Disk:
    """A file system.

    Attributes:
        available: bytes that programs may still write.
        capacity: bytes.
        inodes_free: files that can still be made.
        inodes: files that there can be; 0 where the file system sets no number.
    """

    available: int
    capacity: int
    inodes_free: int
    inodes: int


@dataclass(frozen=True, slots=True)
class Threshold:
    """Pressure begins where less than this is available.

    Attributes:
        amount: bytes or inodes; None where ``percent`` counts.
        percent: of the capacity.
    """

    signal: Signal
    amount: int | None = None
    percent: float = 0.0


@dataclass(frozen=True, slots=True)
class Shortage:
    """A threshold that is passed; bytes or inodes."""

    signal: Signal
    limit: int
    available: int


# Less than a kubelet's 10 % and 5 %: the disk is not the node's alone, and what fills it may not be pods.
DEFAULT_EVICTION = (Threshold("nodefs.available", 500 << 20), Threshold("nodefs.inodesFree", percent=1.0))


def parse_eviction(text: str) -> tuple[Threshold, ...]:
    """Thresholds from text such as ``nodefs.available<10%,nodefs.inodesFree<5%``; an empty text has none.

    Raises:
        ConfigError: a part cannot be read.
    """
    return tuple(_parse(part.strip()) for part in text.split(",") if part.strip())


def shortage(thresholds: Sequence[Threshold], disk: Disk) -> Shortage | None:
    """The first threshold that is passed; None when there is room."""
    for threshold in thresholds:
        free, total = (
            (disk.available, disk.capacity)
            if threshold.signal == "nodefs.available"
            else (disk.inodes_free, disk.inodes)
        )
        limit = int(total * threshold.percent / 100) if threshold.amount is None else threshold.amount
        if total > 0 and free < limit:
            return Shortage(threshold.signal, limit, free)
    return None


def _parse(part: str) -> Threshold:
    name, _, value = part.partition("<")
    signal = next((each for each in get_args(Signal) if each == name.strip()), None)
    value = value.strip()
    if signal is not None and value.endswith("%"):
        try:
            percent = float(value[:-1])
        except ValueError:
            percent = -1.0
        if 0 <= percent <= 100:
            return Threshold(signal, percent=percent)
    elif signal is not None and value:
        try:
            amount = to_int(value)
        except (UnisonoError, ValueError):
            amount = -1
        if amount >= 0:
            return Threshold(signal, amount)
    raise ConfigError(
        f"--eviction-hard: {part[:80]!r} is no threshold: write nodefs.available<10% or nodefs.inodesFree<5%, with a "
        "percentage or a quantity such as 1Gi."
    )
