"""JSON that is nested deeper than a decoder reads: what is too deep is cut out, and the rest can be read (pure)."""

from __future__ import annotations

import re
from typing import Final

CUT: Final = b'"unisono.io/nested-too-deep"'
"""What stands in the place of a value that was cut out."""
DEEPEST: Final = 200
"""Levels that are left. Objects of Kubernetes' own kinds have about 20."""

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


def cut_deep(data: bytes, deepest: int = DEEPEST) -> bytes:
    """The JSON text with every array and object below ``deepest`` levels replaced by `CUT`; takes linear time.

    A Kubernetes API server takes 10,000 levels where a field may hold any JSON, such as the parameters of a
    ResourceClaim; a decoder that recurses reads fewer than 1,000.
    """
    parts: list[bytes] = []
    depth = begun = kept = 0
    for found in _TOKEN.finditer(data):
        token = data[found.start()]
        if token in b"[{":
            depth += 1
            if depth == deepest + 1:
                begun = found.start()
        elif token in b"]}":
            if depth == deepest + 1:
                parts += (data[kept:begun], CUT)
                kept = found.end()
            depth -= 1
    return b"".join((*parts, data[kept:]))
