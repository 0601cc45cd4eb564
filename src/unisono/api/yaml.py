"""YAML and JSON manifests, read as kubectl reads them.

kubectl's reader is YAML 1.1 without sexagesimal numbers and dates: ``yes``, ``on`` and bare ``y`` are booleans (keys
too), ``0o14`` and ``014`` are 12, ``1e3`` is a number, ``12:30:45`` and ``2026-11-20`` are strings.

What is written is read back as the same values: PyYAML leaves some texts unquoted that kubectl's reader takes for
something else, such as ``y`` and ``1e3``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import yaml
import yaml as pyyaml
from yaml.constructor import ConstructorError
from yaml.events import CollectionEndEvent, CollectionStartEvent
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from unisono.errors import ConfigError

try:
    from yaml import CSafeLoader as _BaseLoader
except ImportError:  # libyaml is missing: same answers, ten times slower
    from yaml import SafeLoader as _BaseLoader  # type: ignore[assignment]

_TRUE = frozenset(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"))
_FALSE = frozenset(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"))
_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_NOT_JSON = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_LARGEST_EXPANSION = 5_000_000
_MOST_MERGED = 1_000_000
_DEEPEST = 500
_MERGE = "tag:yaml.org,2002:merge"
_NESTED_ENTRIES = re.compile(rf"(?:[-?:][ \t]+){{{_DEEPEST}}}")
_PLAIN = "tag:unisono,2026:plain"
try:
    from yaml import CSafeDumper as _BaseDumper
except ImportError:  # libyaml is missing: same answers, ten times slower
    from yaml import SafeDumper as _BaseDumper  # type: ignore[assignment]

_WIDTH = 120


@dataclass(frozen=True, slots=True)
class Document:
    """One manifest and the line (1-based) of its file where it starts."""

    value: Any
    line: int


def resolve(text: str) -> Any:
    """The JSON value of an unquoted scalar.

    Raises:
        ValueError: the scalar has no JSON value (infinity, not a number).
    """
    if text in _NULL:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if text[0] not in "+-.0123456789":
        return text
    if _NOT_JSON.fullmatch(text):
        raise ValueError(f"{text} has no JSON value: write a finite number or quote the text")
    return _number(text)


def _number(text: str) -> Any:
    digits = text.replace("_", "")
    match = _INTEGER.fullmatch(digits)
    if match is not None and len(digits) < 400:
        sign, hexadecimal, binary, octal, decimal = match.groups()
        for body, base in ((hexadecimal, 16), (binary, 2), (octal, 8), (decimal, 10)):
            if body is not None:
                number = int(sign + body, base)
                return number if -(2**63) <= number < 2**64 else float(number)
    if _FLOAT.fullmatch(digits):
        value = float(digits)
        if math.isinf(value):
            raise ValueError(f"{text} is too large for a number: quote it if it is text")
        return int(value) if value.is_integer() and abs(value) < 2**63 else value
    return text


class _Loader(_BaseLoader):
    """PyYAML's loader with kubectl's scalars, string keys and no silent duplicates.

    Attributes:
        merged: keys that merges have written out so far.
    """

    merged = 0
    yaml_implicit_resolvers: dict[str | None, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012

    def construct_plain(self, node: ScalarNode) -> Any:
        try:
            return resolve(node.value)
        except ValueError as error:
            raise ConstructorError(None, None, str(error), node.start_mark) from None

    def construct_map(self, node: MappingNode) -> dict[str, Any]:
        self._reject_duplicates(node)
        self.flatten_mapping(node)
        return {self._key(key): self.construct_object(value, deep=True) for key, value in node.value}

    def flatten_mapping(self, node: MappingNode) -> None:
        """Write merge keys out, as long as that stays small: merges of merges multiply."""
        for key, value in node.value:
            if key.tag != _MERGE:
                continue
            for source in value.value if isinstance(value, SequenceNode) else [value]:
                if isinstance(source, MappingNode):
                    self.flatten_mapping(source)
                    self.merged += len(source.value)
                if self.merged > _MOST_MERGED:
                    problem = "merge keys expand to more than this reader takes: write less of them"
                    raise ConstructorError(None, None, problem, key.start_mark)
        super().flatten_mapping(node)

    def construct_unknown(self, node: Node) -> NoReturn:
        raise ConstructorError(None, None, f"tag {node.tag} is not known: remove it", node.start_mark)

    def _reject_duplicates(self, node: MappingNode) -> None:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag == _MERGE:
                continue
            name = self._key(key)
            if name in seen:
                raise ConstructorError(None, None, f'key "{name}" is given twice: keep one of them', key.start_mark)
            seen.add(name)

    def _key(self, node: Node) -> str:
        key = self.construct_object(node, deep=True)
        match key:
            case str():
                return key
            case bool():
                return "true" if key else "false"
            case int() | float():
                return str(key)
            case _:
                raise ConstructorError(None, None, "a key must be text: quote it", node.start_mark)


_Loader.add_implicit_resolver(_MERGE, re.compile("<<"), ["<"])
_Loader.add_implicit_resolver(_PLAIN, re.compile(".*", re.DOTALL), None)
# Sets, ordered maps, binaries and dates have no JSON form: only these tags are read.
_Loader.yaml_constructors = {
    tag: constructor
    for tag, constructor in _Loader.yaml_constructors.items()
    if tag in ("tag:yaml.org,2002:str", "tag:yaml.org,2002:seq")
}
for _tag in (_PLAIN, *(f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "timestamp"))):
    _Loader.add_constructor(_tag, _Loader.construct_plain)
_Loader.add_constructor("tag:yaml.org,2002:map", _Loader.construct_map)
_Loader.add_constructor(None, _Loader.construct_unknown)


def load_all(text: str | bytes, file: str = "") -> list[Document]:
    """All documents of a YAML or JSON text; empty documents are left out.

    Raises:
        ConfigError: the text is neither, a key is given twice, or a value has no JSON form; names file and line.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = error.object[: error.start].count(b"\n") + 1
            raise ConfigError("the file is not UTF-8 text: save it as UTF-8", file=file, line=line) from None
    if text.lstrip()[:1] in ("{", "["):
        documents = _json_documents(text)
        if documents is not None:
            return documents
    try:
        if _may_be_deep(text) and _is_deep(text):
            raise ConfigError(f"the text is nested more than {_DEEPEST} levels deep: flatten it", file=file)
        return [document for document in _yaml_documents(text, file) if document.value is not None]
    except pyyaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context or "not YAML"
        raise ConfigError(problem, file=file, line=mark.line + 1 if mark else 0) from None
    except pyyaml.YAMLError as error:
        position = getattr(error, "position", 0)
        line = text[:position].count("\n") + 1
        raise ConfigError(f"the text is not YAML: {error}".splitlines()[0], file=file, line=line) from None
    except RecursionError:
        raise ConfigError("the text is nested too deeply: flatten it", file=file) from None


def _may_be_deep(text: str) -> bool:
    """Whether there are brackets or dashes enough, also within strings, for more levels than are taken."""
    return text.count("[") + text.count("{") > _DEEPEST or _NESTED_ENTRIES.search(text) is not None


def _is_deep(text: str) -> bool:
    """Whether the text has more levels than are taken; it is not read beyond the first one too many.

    Composing recurses without a guard, and the time for brackets grows with the square of their depth.
    """
    loader = _Loader(text)
    level = 0
    try:
        while loader.check_event():
            event = loader.get_event()
            level += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
            if level > _DEEPEST:
                return True
    finally:
        loader.dispose()
    return False


def _yaml_documents(text: str, file: str) -> Iterator[Document]:
    loader = _Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            assert node is not None  # check_node said so
            line = node.start_mark.line + 1
            value = loader.construct_document(node)
            if "*" in text and _weight(value, {}) > _LARGEST_EXPANSION:
                raise ConfigError(
                    "aliases expand to more than this reader takes: write less of them", file=file, line=line
                )
            yield Document(value, line)
    finally:
        loader.dispose()


def _weight(value: Any, known: dict[int, int]) -> int:
    """Number of values after aliases are written out."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        below = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_weight(each, known) for each in below)
    return known[id(value)]


def _json_documents(text: str) -> list[Document] | None:
    """Concatenated JSON documents, or None when the text is not JSON (it may be YAML in flow style)."""
    decoder = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)
    documents: list[Document] = []
    position = 0
    try:
        while position < len(text):
            value, end = decoder.raw_decode(text, position)
            documents.append(Document(value, text.count("\n", 0, position) + 1))
            position = end
            while position < len(text) and text[position].isspace():
                position += 1
    except (ValueError, RecursionError):
        return None
    return documents


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("duplicate key")  # the YAML reader names it with its line
    return dict(pairs)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(text)
    return value


def expand_lists(documents: Iterable[Document]) -> list[Document]:
    """Replace every ``kind: List`` (or ``PodList``, ...), and every bare list, by its items, in order."""
    expanded: list[Document] = []
    for document in documents:
        items = document.value
        if isinstance(items, dict) and str(items.get("kind", "")).endswith("List"):
            items = items.get("items")
        if isinstance(items, list):
            expanded += expand_lists(Document(item, document.line) for item in items if item is not None)
        else:
            expanded.append(document)
    return expanded


class _Dumper(_BaseDumper):
    def ignore_aliases(self, _data: Any) -> bool:
        """Without anchors: what is the same twice is written twice."""
        return True


def dump(value: Any) -> str:
    """One document: keys in their order, Unicode as it is.

    Args:
        value: JSON values.
    """
    return dump_all([value])


def dump_all(values: Iterable[Any]) -> str:
    """Several documents, each as ``dump`` writes it, with ``---`` between them."""
    text: str = yaml.dump_all(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH)
    return text


def _represent(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if _is_plain(text) else '"')


def _is_plain(text: str) -> bool:
    """Whether the text stays a text without quotes."""
    try:
        return isinstance(resolve(text), str)
    except ValueError:
        return False


_Dumper.add_representer(str, _represent)
