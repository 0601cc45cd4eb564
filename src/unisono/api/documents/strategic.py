"""Strategic merge patch: lists of objects merge by a key that the schema names, with directives in the patch.

Directives: ``$patch: delete|replace|merge`` in an object or list item, ``$retainKeys``,
``$deleteFromPrimitiveList/<field>`` and ``$setElementOrder/<field>``. Lists without a merge strategy are replaced.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from unisono.api.documents.json_patch import Members, frozen, malformed

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_DELETE = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"
# Stands for an item that the patch deletes, so that the places of the others stay.
_GONE: Any = object()
Schema = dict[str, Any]


def apply_strategic_patch(target: dict[str, Any], patch: dict[str, Any], schema: Schema) -> Any:
    """The patched object; changes neither argument.

    ``schema`` is an OpenAPI v3 schema with ``x-kubernetes-patch-merge-key`` and ``x-kubernetes-patch-strategy``.

    Raises:
        ApiError: 400 for a malformed patch.

    """
    return _merge_object(target, patch, schema)


def _merge_object(target: Any, patch: dict[str, Any], schema: Schema) -> Any:
    directive = patch.get(_PATCH)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _PATCH}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise malformed(f"unknown $patch directive {directive!r}")
    result = dict(target) if isinstance(target, dict) else {}
    _retain(result, patch)
    for key, value in patch.items():
        if key in (_PATCH, _RETAIN) or key.startswith((_DELETE, _ORDER)):
            continue
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merge_value(result.get(key), value, _child(schema, key))
    _delete_values(result, patch)
    _order(result, patch, schema)
    return result


def _merge_value(target: Any, value: Any, schema: Schema) -> Any:
    if isinstance(value, dict):
        return _merge_object(target, value, schema)
    if isinstance(value, list):
        return _merge_list(target if isinstance(target, list) else [], value, schema)
    return value


def _merge_list(target: list[Any], patch: list[Any], schema: Schema) -> list[Any]:
    key = schema.get("x-kubernetes-patch-merge-key")
    if "merge" not in _strategies(schema):
        return [_plain(item, schema) for item in patch if not _is_directive(item)]
    if not key:
        if not all(isinstance(item, str | int | float | bool) for item in patch):
            raise malformed("a list of plain values cannot be merged with objects")
        present = Members(target)
        return [*target, *(item for item in patch if item not in present)]
    if any(isinstance(item, dict) and item.get(_PATCH) == "replace" and len(item) == 1 for item in patch):
        return [_plain(item, schema) for item in patch if not _is_directive(item)]
    result: list[Any] = list(target)
    places = _places(result, key)
    items = schema.get("items", {})
    for item in patch:
        if not isinstance(item, dict) or key not in item:
            raise malformed(f"map: {item!r:.200} does not contain declared merge key: {key}")
        found = places.setdefault(frozen(item[key]), deque())
        if item.get(_PATCH) == "delete":
            if found:
                result[found.popleft()] = _GONE
        elif found:
            result[found[0]] = _merge_object(result[found[0]], item, items)
        else:
            found.append(len(result))
            result.append(_merge_object({}, item, items))
    return [item for item in result if item is not _GONE]


def _places(items: list[Any], key: str) -> dict[Any, deque[int]]:
    """Where the items of each identity are, in their order."""
    places: dict[Any, deque[int]] = {}
    for index, item in enumerate(items):
        if isinstance(item, dict):
            places.setdefault(frozen(item.get(key)), deque()).append(index)
    return places


def _plain(item: Any, schema: Schema) -> Any:
    return _merge_object({}, item, schema.get("items", {})) if isinstance(item, dict) else item


def _is_directive(item: Any) -> bool:
    return isinstance(item, dict) and _PATCH in item and (len(item) == 1 or item[_PATCH] == "delete")


def _retain(result: dict[str, Any], patch: dict[str, Any]) -> None:
    kept = patch.get(_RETAIN)
    if kept is None:
        return
    if not isinstance(kept, list):
        raise malformed("$retainKeys must be a list")
    names = Members(kept)
    for key in [one for one in result if one not in names]:
        del result[key]


def _delete_values(result: dict[str, Any], patch: dict[str, Any]) -> None:
    for directive, values in patch.items():
        if not directive.startswith(_DELETE):
            continue
        key = directive.removeprefix(_DELETE)
        if not isinstance(values, list):
            raise malformed(f"{directive} must be a list")
        if isinstance(result.get(key), list):
            dropped = Members(values)
            result[key] = [item for item in result[key] if item not in dropped]


def _order(result: dict[str, Any], patch: dict[str, Any], schema: Schema) -> None:
    for directive, wanted in patch.items():
        if not directive.startswith(_ORDER):
            continue
        key = directive.removeprefix(_ORDER)
        if not isinstance(wanted, list):
            raise malformed(f"{directive} must be a list")
        if isinstance(result.get(key), list):
            merge_key = _child(schema, key).get("x-kubernetes-patch-merge-key")
            result[key] = _sorted(result[key], [_identity(one, merge_key) for one in wanted], merge_key)


def _sorted(items: list[Any], wanted: list[Any], merge_key: str | None) -> list[Any]:
    """Items that the writer named in its order; the others stay behind the item that they followed."""
    groups: dict[int, deque[Any]] = {}
    ranks: dict[Any, int] = {}
    for rank, identity in enumerate(wanted):
        ranks.setdefault(frozen(identity), rank)
    last = -1
    for item in items:
        found = ranks.get(frozen(_identity(item, merge_key)))
        if found is not None:
            last = found
            groups.setdefault(last, deque()).appendleft(item)
        else:
            groups.setdefault(last, deque()).append(item)
    return [item for rank in sorted(groups) for item in groups[rank]]


def _identity(item: Any, merge_key: str | None) -> Any:
    return item.get(merge_key) if merge_key and isinstance(item, dict) else item


def _strategies(schema: Schema) -> list[str]:
    return str(schema.get("x-kubernetes-patch-strategy", "")).split(",")


def _child(schema: Schema, key: str) -> Schema:
    child = schema.get("properties", {}).get(key)
    if child is None:
        child = schema.get("additionalProperties")
    return child if isinstance(child, dict) else {}
