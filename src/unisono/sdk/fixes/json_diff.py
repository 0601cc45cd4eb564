"""The JSON patch (RFC 6902) between two states of a manifest (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Patch = list[dict[str, Any]]


def json_diff(old: Any, new: Any) -> Patch:
    """Operations that turn ``old`` into ``new``; lists of different length are replaced as a whole."""
    return list(_between(old, new, ""))


def _between(old: Any, new: Any, path: str) -> Iterator[dict[str, Any]]:
    if old == new and type(old) is type(new):
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in old:
            if key not in new:
                yield {"op": "remove", "path": _at(path, key)}
        for key, value in new.items():
            if key in old:
                yield from _between(old[key], value, _at(path, key))
            else:
                yield {"op": "add", "path": _at(path, key), "value": value}
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _between(one, other, _at(path, str(index)))
    else:
        yield {"op": "replace", "path": path, "value": new}


def _at(path: str, key: str) -> str:
    return f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
