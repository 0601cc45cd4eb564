"""Label and field selectors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from unisono.apiserver.failures import bad_request
from unisono.apiserver.storage.objects import StoredEntry

# Label selectors: the complete grammar of the Kubernetes API, with its error texts.
#
# ``a=b``, ``a==b``, ``a!=b``, ``a in (x,y)``, ``a notin (x,y)``, ``a``, ``!a``, ``a>1``, ``a<1``, joined by commas.

Matcher = Callable[[Mapping[str, str]], bool]

_WORD = re.compile(r"[ \t\r\n]*(==|!=|[=!(),<>]|[^=!(),<> \t\r\n]+|$)")
_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SPECIAL = frozenset({"", "==", "!=", "=", "!", "(", ")", ",", "<", ">"})
_OPERATORS = frozenset({"in", "notin", "=", "==", "!=", ">", "<"})
_KEY_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for "
    "validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


class _ParseError(Exception):
    pass


@lru_cache(maxsize=1024)
def parse_label_selector(text: str) -> Matcher | None:
    """Compile a selector; None when it selects everything.

    Raises:
        ApiError: 400 with the parser's words.
    """
    try:
        matchers = _Parser(text).parse()
    except _ParseError as error:
        raise bad_request(str(error)) from None
    if not matchers:
        return None
    if len(matchers) == 1:
        return matchers[0]
    return lambda labels: all(matches(labels) for matches in matchers)


class _Parser:
    def __init__(self, text: str) -> None:
        self._words = _WORD.findall(text)
        self._at = 0

    def parse(self) -> list[Matcher]:
        matchers: list[Matcher] = []
        while True:
            word = self._peek()
            if word == "":
                return matchers
            if word in _SPECIAL and word != "!":
                raise _ParseError(f"found '{word}', expected: !, identifier, or 'end of string'")
            try:
                matchers.append(self._requirement())
            except _ParseError as error:
                raise _ParseError(f"unable to parse requirement: {error}") from None
            word = self._take()
            if word == "":
                return matchers
            if word != ",":
                raise _ParseError(f"found '{word}', expected: ',' or 'end of string'")
            word = self._peek()
            if word in _SPECIAL and word != "!":
                raise _ParseError(f"found '{word}', expected: identifier after ','")

    def _requirement(self) -> Matcher:
        absent = self._peek() == "!"
        if absent:
            self._take()
        key = self._take()
        if key in _SPECIAL:
            raise _ParseError(f"found '{key}', expected: identifier")
        _check_key(key)
        if absent:
            return lambda labels: key not in labels
        if self._peek() in ("", ","):
            return lambda labels: key in labels
        operator = self._take()
        if operator not in _OPERATORS:
            raise _ParseError(f"found '{operator}', expected: !=, =, ==, gt, in, lt, notin")
        values = self._values() if operator in ("in", "notin") else [self._exact_value()]
        return _matcher(key, operator, values)

    def _values(self) -> list[str]:
        word = self._take()
        if word != "(":
            raise _ParseError(f"found '{word}' expected: '('")
        values: list[str] = []
        expect_value = True
        while True:
            word = self._take()
            if word == ")":
                if expect_value and values:
                    values.append("")
                return values
            if word == ",":
                if expect_value:
                    values.append("")
                expect_value = True
            elif word in _SPECIAL or not expect_value:
                raise _ParseError(f"found '{word}', expected: ',' or ')'")
            else:
                values.append(word)
                expect_value = False

    def _exact_value(self) -> str:
        if self._peek() in ("", ","):
            return ""
        word = self._take()
        if word in _SPECIAL:
            raise _ParseError(f"found '{word}', expected: identifier")
        return word

    def _peek(self) -> str:
        return self._words[self._at] if self._at < len(self._words) else ""

    def _take(self) -> str:
        word = self._peek()
        self._at += 1
        return word


def _matcher(key: str, operator: str, values: list[str]) -> Matcher:
    if operator in (">", "<"):
        return _ordered(key, operator, values[0])
    if not values:
        raise _ParseError("values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty")
    for index, value in enumerate(values):
        _check_value(key, index, value)
    operands = frozenset(values)
    if operator in ("=", "==", "in"):
        if len(operands) == 1:
            (only,) = operands
            return lambda labels: labels.get(key) == only
        return lambda labels: labels.get(key) in operands
    return lambda labels: labels.get(key) not in operands


def _ordered(key: str, operator: str, value: str) -> Matcher:
    limit = _integer(value)
    if limit is None:
        raise _ParseError(
            f"values[0][{key}]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, the value must be an integer"
        )
    bound = limit

    def matches(labels: Mapping[str, str]) -> bool:
        number = _integer(labels.get(key, ""))
        if number is None:
            return False
        return number > bound if operator == ">" else number < bound

    return matches


def _integer(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,19}", text) else None


def _check_key(key: str) -> None:
    prefix, slash, name = key.rpartition("/")
    if not _NAME.fullmatch(name) or (slash and (len(prefix) > 253 or not _PREFIX.fullmatch(prefix))):
        raise _ParseError(f'key: Invalid value: "{key}": {_KEY_RULE}')


def _check_value(key: str, index: int, value: str) -> None:
    if value and not _NAME.fullmatch(value):
        raise _ParseError(f'values[{index}][{key}]: Invalid value: "{value}": {_VALUE_RULE}')


# Field selectors: ``path=value``, ``path==value``, ``path!=value``, joined by commas, over a fixed list per kind.

EntryMatcher = Callable[[StoredEntry], bool]
Reader = Callable[[StoredEntry], str]

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
    matchers = [_term(term, text, reader) for term in re.split(r"(?<!\\),", text) if term]
    if not matchers:
        return None
    if len(matchers) == 1:
        return matchers[0]
    return lambda entry: all(matches(entry) for matches in matchers)


def selected_name(text: str) -> str | None:
    """The name that a selector pins with ``metadata.name=``, so that a list need not scan."""
    match = re.search(r"(?:^|,)metadata\.name==?([^,=!\\]+)(?:,|$)", text)
    return match.group(1) if match else None


def _term(term: str, text: str, reader: Callable[[str], Reader | None]) -> EntryMatcher:
    parsed = re.match(r"((?:[^=!\\]|\\.)*)(!=|==|=)((?:[^=\\]|\\.)*)$", term, re.DOTALL)
    if parsed is None:
        raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
    label, operator, raw = parsed.groups()
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


def _fields_of(entry: StoredEntry) -> tuple[str, ...]:
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
