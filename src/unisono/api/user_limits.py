"""What one user may hold in a queue, as an annotation of the Queue says (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from unisono.api.quantity import QuantityError, parse_quantity
from unisono.api.resources import resource_list, to_units, to_wire

JOBS: Final = "jobs"


def limits_of(text: str) -> dict[str, int]:
    """``jobs=4,pods=16,nvidia.com/gpu=8`` by name: ``jobs`` as a number, everything else in engine units.

    Raises:
        ValueError: a part is no ``NAME=QUANTITY``.

    """
    amounts: dict[str, str] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, mark, value = part.partition("=")
        if not mark or not name.strip():
            raise ValueError(f"{part!r} is no NAME=QUANTITY, such as nvidia.com/gpu=8")
        amounts[name.strip()] = value.strip()
    jobs = amounts.pop(JOBS, None)
    if jobs is not None and not (jobs.isascii() and jobs.isdigit()):
        raise ValueError(f"{JOBS}={jobs} must be a whole number")
    for amount in amounts.values():
        try:
            parse_quantity(amount)
        except QuantityError:
            raise ValueError(f"{amount!r} is no quantity, such as 8 or 16Gi") from None
    found = resource_list(amounts)
    return found if jobs is None else {JOBS: int(jobs), **found}


def raised(text: str, by: Mapping[str, int]) -> str:
    """The same limits, those in ``by`` raised by so much; its amounts are those of `limits_of`."""
    parts: list[str] = []
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, _, value = (each.strip() for each in part.partition("="))
        if name == JOBS and name in by:
            value = str(int(value) + by[name])
        elif name in by:
            value = to_wire({name: to_units(name, value) + by[name]})[name]
        parts.append(f"{name}={value}")
    return ",".join(parts)
