"""Licences and other floating resources: how objects ask for them, and by which names they are counted (pure).

A floating resource lies on no node. The FloatingResource ``matlab`` says how many there are; pods ask for it as for any
extended resource, by the name ``licenses.unisono.io/matlab``, and a job as a whole by an annotation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from unisono.api.annotations import LICENSES
from unisono.api.groups.quota import FloatingResource

PREFIX: Final = "licenses.unisono.io/"
"""Begins the resource name of every floating resource."""

MOST: Final = 1_000_000
"""Most of one floating resource, and of what is asked of it; enough that no node's sum comes near its bound."""

MOST_NAMES: Final = 16
"""Floating resources that one job may ask for."""

UNIT: Final = 1000
"""Engine units of one licence."""

NAME: Final = r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?"
"""What a floating resource may be called: the part of a resource name behind the slash, as object names are."""

_NAME = re.compile(NAME)
_FORM = "write NAME or NAME=NUMBER, separated by commas, such as matlab=2, ansys"


def is_floating(name: str) -> bool:
    """Whether a resource name is that of a floating resource."""
    return name.startswith(PREFIX)


def short(name: str) -> str:
    """``matlab`` for ``licenses.unisono.io/matlab``."""
    return name.removeprefix(PREFIX)


def licenses_of(text: str) -> dict[str, int]:
    """``matlab=2, ansys`` as whole numbers by short name.

    Raises:
        ValueError: a part has another form, or asks for less than one or more than `MOST`; the text says what to write.
    """
    licenses: dict[str, int] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, mark, number = (each.strip() for each in part.partition("="))
        if not _NAME.fullmatch(name):
            raise ValueError(f"{part!r} names no floating resource: {_FORM}")
        if mark and not (number.isascii() and number.isdigit() and 0 < len(number) <= len(str(MOST))):
            raise ValueError(f"{part!r} asks for no whole number: {_FORM}")
        amount = int(number) if mark else 1
        if not 1 <= amount <= MOST:
            raise ValueError(f"{part!r} must ask for 1 to {MOST}")
        if name in licenses:
            raise ValueError(f"{name} stands there twice: {_FORM}")
        licenses[name] = amount
    if len(licenses) > MOST_NAMES:
        raise ValueError(f"{len(licenses)} floating resources are too many, {MOST_NAMES} at most")
    return licenses


def licenses_text(amounts: Mapping[str, int]) -> str:
    """The annotation that asks for whole numbers by short name."""
    return ", ".join(f"{name}={amount}" for name, amount in sorted(amounts.items()))


def asked_for(annotations: Mapping[str, str] | None) -> dict[str, int]:
    """What a job as a whole asks for, in engine units by resource name.

    Raises:
        ValueError: as `licenses_of`.
    """
    text = (annotations or {}).get(LICENSES)
    if not text:
        return {}
    return {f"{PREFIX}{name}": amount * UNIT for name, amount in licenses_of(text).items()}


def known_amounts(floating: FloatingResource) -> tuple[int, int, str]:
    """How many there are, how many others hold, and why that is not known; as stated, or as a source said last."""
    spec, status, source = floating.spec, floating.status, floating.spec.source
    if source is None:
        problem = "" if spec.amount is not None else "it says neither spec.amount nor spec.source"
        return spec.amount or 0, spec.in_use or 0, problem
    if status.observed is None:
        return 0, 0, "its source has not been read yet"
    amount = status.amount if source.amount_pointer else spec.amount
    elsewhere = status.elsewhere if source.in_use_pointer else spec.in_use
    return amount or 0, elsewhere or 0, ""
