"""Strategic merge patch: lists of objects merge by a key that the schema names, with directives in the patch.

Directives: ``$patch: delete|replace|merge`` in an object or list item, ``$retainKeys``,
``$deleteFromPrimitiveList/<field>`` and ``$setElementOrder/<field>``. Lists without a merge strategy are replaced.
"""

from __future__ import annotations

from typing import Any

from unisono.apiserver.failures import bad_request

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_DELETE = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"
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
        raise bad_request(f"unknown $patch directive {directive!r}")
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
            raise bad_request("a list of plain values cannot be merged with objects")
        return [*target, *(item for item in patch if item not in target)]
    if any(isinstance(item, dict) and item.get(_PATCH) == "replace" and len(item) == 1 for item in patch):
        return [_plain(item, schema) for item in patch if not _is_directive(item)]
    result = list(target)
    for item in patch:
        _merge_item(result, item, key, schema)
    return result


def _merge_item(result: list[Any], item: Any, key: str, schema: Schema) -> None:
    if not isinstance(item, dict) or key not in item:
        raise bad_request(f"map: {item!r} does not contain declared merge key: {key}")
    at = next((i for i, one in enumerate(result) if isinstance(one, dict) and one.get(key) == item[key]), None)
    if item.get(_PATCH) == "delete":
        if at is not None:
            del result[at]
        return
    items = schema.get("items", {})
    merged = _merge_object(result[at] if at is not None else {}, item, items)
    if at is None:
        result.append(merged)
    else:
        result[at] = merged


def _plain(item: Any, schema: Schema) -> Any:
    return _merge_object({}, item, schema.get("items", {})) if isinstance(item, dict) else item


def _is_directive(item: Any) -> bool:
    return isinstance(item, dict) and _PATCH in item and (len(item) == 1 or item[_PATCH] == "delete")


def _retain(result: dict[str, Any], patch: dict[str, Any]) -> None:
    kept = patch.get(_RETAIN)
    if kept is None:
        return
    if not isinstance(kept, list):
        raise bad_request("$retainKeys must be a list")
    for key in [one for one in result if one not in kept]:
        del result[key]


def _delete_values(result: dict[str, Any], patch: dict[str, Any]) -> None:
    for directive, values in patch.items():
        if not directive.startswith(_DELETE):
            continue
        key = directive.removeprefix(_DELETE)
        if not isinstance(values, list):
            raise bad_request(f"{directive} must be a list")
        if isinstance(result.get(key), list):
            result[key] = [item for item in result[key] if item not in values]


def _order(result: dict[str, Any], patch: dict[str, Any], schema: Schema) -> None:
    for directive, wanted in patch.items():
        if not directive.startswith(_ORDER):
            continue
        key = directive.removeprefix(_ORDER)
        if not isinstance(wanted, list):
            raise bad_request(f"{directive} must be a list")
        if isinstance(result.get(key), list):
            merge_key = _child(schema, key).get("x-kubernetes-patch-merge-key")
            result[key] = _sorted(result[key], [_identity(one, merge_key) for one in wanted], merge_key)


def _sorted(items: list[Any], wanted: list[Any], merge_key: str | None) -> list[Any]:
    """Items that the writer named in its order; the others stay behind the item that they followed."""
    groups: dict[int, list[Any]] = {}
    last = -1
    for item in items:
        identity = _identity(item, merge_key)
        if identity in wanted:
            last = wanted.index(identity)
            groups.setdefault(last, []).insert(0, item)
        else:
            groups.setdefault(last, []).append(item)
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
