"""Merge patch (RFC 7386) and JSON patch (RFC 6902), for the in-memory client."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from unisono.errors import Invalid


def merge(target: Any, patch: Any) -> Any:
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def apply_json_patch(target: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    result = copy.deepcopy(target)
    for operation in operations:
        result = _apply(result, operation)
    return result


def _apply(document: Any, operation: Mapping[str, Any]) -> Any:
    name, path = operation["op"], operation["path"]
    if name == "test":
        if _get(document, path) != operation["value"]:
            raise Invalid("the server rejected our request due to an error in our request")
    elif name == "add":
        _set(document, path, operation["value"], insert=True)
    elif name == "replace":
        _get(document, path)
        _set(document, path, operation["value"], insert=False)
    elif name == "remove":
        _remove(document, path)
    elif name in ("move", "copy"):
        value = copy.deepcopy(_get(document, operation["from"]))
        if name == "move":
            _remove(document, operation["from"])
        _set(document, path, value, insert=True)
    else:
        raise Invalid(f"unknown operation {name!r}")
    return document


def _parts(path: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


def _get(document: Any, path: str) -> Any:
    for part in _parts(path):
        try:
            document = document[int(part)] if isinstance(document, list) else document[part]
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise Invalid(f"the path {path} does not exist") from error
    return document


def _parent(document: Any, path: str) -> tuple[Any, str]:
    head, _, last = path.rpartition("/")
    return _get(document, head) if head else document, last.replace("~1", "/").replace("~0", "~")


def _set(document: Any, path: str, value: Any, *, insert: bool) -> None:
    parent, last = _parent(document, path)
    if isinstance(parent, list):
        index = len(parent) if last == "-" else int(last)
        if insert:
            parent.insert(index, value)
        else:
            parent[index] = value
    else:
        parent[last] = value


def _remove(document: Any, path: str) -> None:
    _get(document, path)
    parent, last = _parent(document, path)
    if isinstance(parent, list):
        del parent[int(last)]
    else:
        del parent[last]


def merge_strategically(target: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """As far as components use it: conditions of the status are merged by type, everything else as by `merge`."""
    merged: dict[str, Any] = merge(target, patch)
    wanted = (patch.get("status") or {}).get("conditions")
    if wanted:
        named = {one["type"] for one in wanted}
        others = [one for one in (target.get("status") or {}).get("conditions") or () if one["type"] not in named]
        merged["status"]["conditions"] = [*others, *wanted]
    return merged
