"""Field selectors over ``selectableFields`` of a definition."""

from __future__ import annotations

from typing import Any

import msgspec

from unisono.apiserver.custom.kinds import CustomKind
from unisono.apiserver.custom.scale import find_value
from unisono.apiserver.selectors.fields import EntryMatcher, Reader, compile_field_selector
from unisono.apiserver.storage.entry import Entry

_JSON = msgspec.json.Decoder().decode


def custom_selector(text: str, kind: CustomKind) -> EntryMatcher | None:
    """Compile a selector for a user-defined kind; None when it selects everything.

    Raises:
        ApiError: 400 for a syntax error or a field that the version does not offer.

    """

    def reader(label: str) -> Reader | None:
        return _reader(kind, label) if label in kind.details.selectable else None

    return compile_field_selector(text, reader)


def _reader(kind: CustomKind, path: str) -> Reader:
    def read(entry: Entry) -> str:
        return _text(find_value(_JSON(kind.view(entry.data)), path))

    return read


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
