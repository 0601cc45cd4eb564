"""Field selectors: ``path=value``, ``path==value``, ``path!=value``, joined by commas, over a fixed list per kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from unisono.apiserver.failures import bad_request
from unisono.apiserver.storage.entry import Entry

EntryMatcher = Callable[[Entry], bool]
Reader = Callable[[Entry], str]

_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")

# Label in the selector -> path on the wire. metadata.name and metadata.namespace hold for every kind.
_FIELDS: dict[str, dict[str, str]] = {
    "pods": {
        **{
            path: path
            for path in (
                "spec.nodeName",
                "spec.restartPolicy",
                "spec.schedulerName",
                "spec.serviceAccountName",
                "spec.hostNetwork",
                "status.phase",
                "status.podIP",
                "status.podIPs",
                "status.nominatedNodeName",
            )
        },
        "spec.host": "spec.nodeName",
    },
    "nodes": {"spec.unschedulable": "spec.unschedulable"},
    "namespaces": {"status.phase": "status.phase"},
    "secrets": {"type": "type"},
    "services": {"spec.clusterIP": "spec.clusterIP", "spec.type": "spec.type"},
    "events": {
        **{f"involvedObject.{name}": f"involvedObject.{name}" for name in _INVOLVED},
        "reason": "reason",
        "reportingComponent": "reportingComponent",
        "source": "source.component",
        "type": "type",
    },
}
# What an absent field counts as, where that is not the empty string.
_ABSENT = {"spec.hostNetwork": "false", "spec.unschedulable": "false"}
_META_READERS: dict[str, Reader] = {
    "metadata.name": lambda entry: entry.name,
    "metadata.namespace": lambda entry: entry.namespace,
}


@lru_cache(maxsize=1024)
def parse_field_selector(text: str, resource: str) -> EntryMatcher | None:
    """Compile a selector for one resource (``Kind.resource``); None when it selects everything.

    Raises:
        ApiError: 400 for a syntax error or a field that the kind does not offer.

    """
    return compile_field_selector(text, lambda label: _reader(label, resource))


def compile_field_selector(text: str, reader: Callable[[str], Reader | None]) -> EntryMatcher | None:
    """Compile a selector over the fields that ``reader`` knows.

    Args:
        text: the selector.
        reader: answers what reads a field, or None for a field that the kind does not offer.

    Raises:
        ApiError: 400 for a syntax error or a field that the kind does not offer.

    """
    matchers = [_term(term, text, reader) for term in _split(text) if term]
    if not matchers:
        return None
    if len(matchers) == 1:
        return matchers[0]
    return lambda entry: all(matches(entry) for matches in matchers)


def selected_name(text: str) -> str | None:
    """The name that a selector pins with ``metadata.name=``, so that a list need not scan."""
    found = re.search(r"(?:^|,)metadata\.name==?([^,=!\\]+)(?:,|$)", text)
    return found.group(1) if found else None


def _split(text: str) -> list[str]:
    return re.split(r"(?<!\\),", text)


def _term(term: str, text: str, reader: Callable[[str], Reader | None]) -> EntryMatcher:
    found = re.match(r"((?:[^=!\\]|\\.)*)(!=|==|=)((?:[^=\\]|\\.)*)$", term, re.DOTALL)
    if found is None:
        raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
    label, operator, raw = found.groups()
    label, value = label.strip(), re.sub(r"\\([\\,=])", r"\1", raw)
    read = _META_READERS.get(label) or reader(label)
    if read is None:
        raise bad_request(f"field label not supported: {label}")
    if operator == "!=":
        return lambda entry: read(entry) != value
    return lambda entry: read(entry) == value


def _reader(label: str, resource: str) -> Reader | None:
    fields = _FIELDS.get(resource, {})
    if label not in fields:
        return None
    index = list(fields).index(label)
    return lambda entry: _fields_of(entry)[index]


def _fields_of(entry: Entry) -> tuple[str, ...]:
    if entry.fields is None:
        fields = _FIELDS[entry.resource]
        value = _decoder(entry.resource).decode(entry.data)
        entry.fields = tuple(_text(value, path) for path in fields.values())
    return entry.fields


@lru_cache(maxsize=64)
def _decoder(resource: str) -> msgspec.json.Decoder[Any]:
    tree: dict[str, Any] = {}
    for path in _FIELDS[resource].values():
        node = tree
        *parents, leaf = path.split(".")
        for parent in parents:
            node = node.setdefault(parent, {})
        node[leaf] = None
    return msgspec.json.Decoder(_partial("Fields", tree))


def _partial(name: str, tree: Mapping[str, Any]) -> type:
    # Only the selectable fields are decoded; the rest of the bytes is skipped.
    members = [
        (key, Any if child is None else _partial(f"{name}_{key}", child) | None, None) for key, child in tree.items()
    ]
    return msgspec.defstruct(name, members)


def _text(value: Any, path: str) -> str:
    for part in path.split("."):
        value = getattr(value, part, None)
    if value is None or value == "":
        return _ABSENT.get(path, "")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(str(item.get("ip", "")) for item in value if isinstance(item, dict))
    return str(value)
