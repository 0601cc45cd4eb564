"""Amounts of resources in units that people use: ``8 GPUs, 96 CPUs, 384 GiB`` (pure)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from unisono.api.resources import is_bytes
from unisono.history.records import is_gpu

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_CPU = "cpu"
# Longer ones are no numbers that people count by.
_NUMBERS = re.compile(r"(\d{1,18})")
_LAST = ("memory", "ephemeral-storage", "pods")


def quantity(name: str, amount: int) -> str:
    """An amount in engine units without its resource's name: ``1,624``, ``6.34 TiB``, ``0.5``."""
    if is_bytes(name):
        return _bytes(amount)
    if name == "pods":
        return f"{amount:,}"
    value = amount / 1000
    digits = 0 if amount % 1000 == 0 else 1 if abs(value) >= 10 else 3
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _bytes(amount: int) -> str:
    value, step = float(amount), 0
    # 1023.9 GiB would be told as 1,024 GiB.
    while abs(value) >= 999.5 and step < len(_BINARY) - 1:
        value, step = value / 1024, step + 1
    digits = max(0, 2 - len(str(int(abs(value))).lstrip("0"))) if step else 0
    text = f"{value:.{digits}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{text} {_BINARY[step]}"


def amount_text(name: str, amount: int) -> str:
    """One amount with its unit: ``8 GPUs``, ``96 CPUs``, ``384 GiB``, ``amd.com/nic 2``."""
    text = quantity(name, amount)
    if name == _CPU:
        return f"{text} CPU" if amount == 1000 else f"{text} CPUs"
    if name == "memory":
        return text
    if name.endswith("/gpu") and is_gpu(name):
        return f"{text} GPU" if amount == 1000 else f"{text} GPUs"
    if name == "pods":
        return f"{text} pod" if amount == 1 else f"{text} pods"
    return f"{text} {name}"


def amounts_text(amounts: Mapping[str, int]) -> str:
    """All amounts that are not 0, devices first: ``8 GPUs, 96 CPUs, 384 GiB``."""
    named = sorted((name for name, amount in amounts.items() if amount), key=_place)
    return ", ".join(amount_text(name, amounts[name]) for name in named)


def ordered(names: Mapping[str, object]) -> list[str]:
    """Names of resources as tables list them: cards, CPU, memory, the rest."""
    return sorted(names, key=_place)


def _place(name: str) -> tuple[int, str]:
    if is_gpu(name):
        # What jobs ask for by the card before what only nodes have, such as a number of cards that are shared.
        return 0 if name.endswith("/gpu") else 1, name
    if name == _CPU:
        return 2, name
    return (4 + _LAST.index(name), name) if name in _LAST else (3, name)


def natural(text: str) -> list[tuple[int, str]]:
    """Sorts ``node-2`` before ``node-10``."""
    return [(int(each), "") if each.isascii() and each.isdigit() else (-1, each) for each in _NUMBERS.split(text)]
