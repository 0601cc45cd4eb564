"""Kubernetes quantities, exactly.

Grammar (Kubernetes API conventions, ``resource.Quantity``)::

    quantity = [+|-] digits[.digits] [suffix]      also ".5" and "5."
    suffix   = n u m k M G T P E | Ki Mi Gi Ti Pi Ei | e<int> | E<int>

As in Kubernetes a value finer than 1n is rounded away from zero to 1n, and one beyond 2^63-1 is capped.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from unisono.api.base import Quantity
from unisono.errors import UnisonoError

MAX: Final = 2**63 - 1
_NANO: Final = 10**9
_PATTERN: Final = re.compile(
    r"([+-]?)([0-9]*)(?:\.([0-9]*))?(Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?[0-9]+|[numkMGTPE])?", re.ASCII
)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX: Final = {power: suffix for suffix, power in _DECIMAL.items()}
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
# Beyond these powers of ten every value is capped or rounded to 1n, whatever its digits.
_FAR: Final = 400
# Digits of a number of bytes that people read as they are: 4000Mi, not 3.91Gi.
_SHORT: Final = 4

Rounding = Literal["nearest", "up", "down"]


class QuantityError(UnisonoError):
    """The text is not a quantity."""

    def __init__(self, text: object) -> None:
        super().__init__(
            f"{text!r} is not a quantity: write a number with an optional suffix such as 500m, 2, 1.5, 100M, 4Gi or 1e3"
        )
        self.text = text


class _Parsed(NamedTuple):
    nano: int
    family: str  # "decimal", "binary" or "exponent": how the value is written back


def _ceil_away(numerator: int, denominator: int) -> int:
    """Quotient rounded away from zero; ``denominator`` is positive."""
    return -(-numerator // denominator) if numerator >= 0 else numerator // denominator


@lru_cache(maxsize=16384)
def _parse(text: str) -> _Parsed:
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise QuantityError(text)
    sign, whole, fraction, suffix = match.group(1), match.group(2), match.group(3) or "", match.group(4) or ""
    if not whole and not fraction:
        raise QuantityError(text)
    if len(whole) + len(fraction) > _FAR:
        raise QuantityError(text[:40] + "...")
    digits = int(whole + fraction)
    if sign == "-":
        digits = -digits
    if suffix.endswith("i"):
        family, power, base = "binary", -len(fraction), 1024 ** _BINARY.index(suffix)
    elif len(suffix) > 1:
        family, power, base = "exponent", _exponent(suffix[1:], text) - len(fraction), 1
    else:
        family, power, base = "decimal", _DECIMAL[suffix] - len(fraction), 1
    power = max(-2 * _FAR, min(2 * _FAR, power)) + 9
    numerator = digits * base * 10 ** max(power, 0)
    nano = _ceil_away(numerator, 10 ** max(-power, 0))
    return _Parsed(max(-MAX * _NANO, min(MAX * _NANO, nano)), family)


def _exponent(text: str, whole: str) -> int:
    if len(text) > 18:
        raise QuantityError(whole[:40])
    return int(text)


def _of(quantity: Quantity) -> _Parsed:
    if isinstance(quantity, str):
        return _parse(quantity)
    if isinstance(quantity, bool) or not isinstance(quantity, int | float):
        raise QuantityError(quantity)
    if isinstance(quantity, int) and abs(quantity) > MAX:
        return _Parsed(MAX * _NANO if quantity > 0 else -MAX * _NANO, "decimal")
    return _parse(repr(quantity))


def parse_quantity(quantity: Quantity) -> Fraction:
    """The exact value, a multiple of 1/10^9.

    Raises:
        QuantityError: not a quantity.
    """
    return _exact(_of(quantity).nano)


@lru_cache(maxsize=16384)
def _exact(nano: int) -> Fraction:
    return Fraction(nano, _NANO)


def to_milli(quantity: Quantity) -> int:
    """Thousandths, rounded up (away from zero) as Kubernetes' ``MilliValue``; at most 2^63-1."""
    return max(-MAX, min(MAX, _ceil_away(_of(quantity).nano, 10**6)))


def to_int(quantity: Quantity) -> int:
    """Whole units, rounded up (away from zero) as Kubernetes' ``Value``."""
    return _ceil_away(_of(quantity).nano, _NANO)


def format_milli(milli: int) -> str:
    """Canonical text of a number of thousandths: 1500 -> ``1500m``, 2000 -> ``2``."""
    return _decimal(milli * 10**6, exponent=False)


def format_bytes(value: int) -> str:
    """Canonical text of a number of bytes with binary suffixes: 1073741824 -> ``1Gi``."""
    return _binary(value) if abs(value) >= 1024 else str(value)


def readable_bytes(value: int, rounding: Rounding = "nearest") -> str:
    """A number of bytes for people, with at most two decimals where it is not short: 30331802419 -> ``28.25Gi``."""
    exact = format_bytes(value)
    index = (value.bit_length() - 1) // 10
    if not 1 <= index < len(_BINARY) or len(exact.rstrip("KMGTPEi")) <= _SHORT:
        return exact
    hundredths, unit = 100 * value, 1024**index
    if rounding == "nearest":
        number = (2 * hundredths + unit) // (2 * unit)
    else:
        number = hundredths // unit if rounding == "down" else -(-hundredths // unit)
    text = f"{number // 100}.{number % 100:02}".rstrip("0").rstrip(".")
    return f"{text}{_BINARY[index]}"


def readable_milli(milli: int) -> str:
    """A number of thousandths for people: 500 -> ``500m``, 1500 -> ``1.5``, 16344 -> ``16.344``, 2000000 -> ``2000``.

    The text is exact, so that it can be copied into a manifest.
    """
    whole, part = divmod(abs(milli), 1000)
    if part == 0:
        return str(milli // 1000)
    if whole == 0:
        return f"{milli}m"
    return f"{'-' if milli < 0 else ''}{whole}.{part:03}".rstrip("0")


def canonical(quantity: Quantity) -> str:
    """As Kubernetes writes the quantity back: ``0.5`` -> ``500m``, ``1024Mi`` -> ``1Gi``, ``1000k`` -> ``1M``.

    Raises:
        QuantityError: not a quantity.
    """
    nano, family = _of(quantity)
    if family == "binary" and nano % _NANO == 0 and abs(nano) >= 1024 * _NANO:
        return _binary(nano // _NANO)
    return _decimal(nano, exponent=family == "exponent")


def _binary(value: int) -> str:
    index = 0
    while value and value % 1024 == 0 and index < len(_BINARY) - 1:
        value //= 1024
        index += 1
    return f"{value}{_BINARY[index]}"


def _decimal(nano: int, *, exponent: bool) -> str:
    if nano == 0:
        return "0"
    power = -9
    while nano % 1000 == 0 and power < 18:
        nano //= 1000
        power += 3
    if exponent:
        return f"{nano}e{power}" if power else str(nano)
    return f"{nano}{_DECIMAL_SUFFIX[power]}"
