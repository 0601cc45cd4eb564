"""YAML that remembers where each key and value stands, so that an error can name its line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, NoReturn

import yaml
from yaml.constructor import ConstructorError, SafeConstructor

from unisono.errors import ConfigError

# Collects the errors of a configuration file, so that one reading names all of them.

# More are of no use to a reader, and each may cost a search for the nearest known name.
_MOST = 100


class _Enough(Exception):
    """So many errors were found that the rest of the file is not read."""


class Problems:
    """Errors in the order in which they were found, at most 100.

    Attributes:
        found: the errors.
    """

    def __init__(self) -> None:
        self.found: list[ConfigError] = []

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep the error that ends a part of the file, and go on after it."""
        try:
            yield
        except ConfigError as error:
            self.found.append(error)
            if len(self.found) >= _MOST:
                raise _Enough from None

    @contextmanager
    def whole_file(self) -> Iterator[None]:
        """The same around the reading of the whole file."""
        try:
            with self.kept():
                yield
        except _Enough:
            pass

    def raise_first(self) -> None:
        """Raise the first error, which also says how many more there are; without an error do nothing.

        Raises:
            ConfigError: with file, line and key of the first error.
        """
        if not self.found:
            return
        first, more = self.found[0], len(self.found) - 1
        if more:
            first.args = (f"{first} ({more} more error{'s' if more > 1 else ''}: unisono config check names all)",)
        raise first


def parse(text: str, file: str) -> Value | None:
    """The document's root, or None where the text holds no document; raises ConfigError on broken YAML."""
    try:
        loader = yaml.SafeLoader(text)
        try:
            node = loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise ConfigError(
            f"the YAML is broken: {error.problem or error.context}", file=file, line=mark.line + 1 if mark else 0
        ) from None
    except yaml.YAMLError as error:
        raise ConfigError(f"the YAML is broken: {error}", file=file) from None
    except RecursionError:
        raise ConfigError("the YAML is nested too deep", file=file) from None
    return None if node is None else Value(node, file, "")


_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+[a-z]*")
_SAME = {"mem": "memory", "gpumem": "gpu memory", "enabled": "enable", "enabling": "enable", "thresholds": "threshold"}
_SAME |= {"limits": "limit", "weights": "weight", "plugin": "plugins", "argument": "arguments", "args": "arguments"}
_FILLING = frozenset(("weight", "usage", "avg", "average", "percent", "threshold", "value", "enable", "auto", "5m"))
_LIKE = 0.6
"""How much of two names must mean the same."""


def suggestion(name: str, known: Iterable[str]) -> str:
    """``; did you mean x?`` for the known name that means the same, else for the nearest one, or nothing."""
    names = list(known)
    same = meant(name, names)
    if same:
        return f"; did you mean {same}?"
    by_lower = {candidate.lower(): candidate for candidate in names if _differs_little(name, candidate)}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=_LIKE)
    return f"; did you mean {by_lower[near[0]]}?" if near else ""


def _differs_little(one: str, other: str) -> bool:
    """Whether what two names do not have in common is alike, too: ``predicate.AEnable`` is no ``predicate.BEnable``."""
    mine, theirs = _words(one), _words(other)
    rests = ["".join(word for word in _spelled(name) if word not in mine & theirs) for name in (one, other)]
    return not any(rests) or difflib.SequenceMatcher(None, rests[0], rests[1]).ratio() >= _LIKE


def meant(name: str, known: Iterable[str]) -> str:
    """The known name that means the same; empty where none does."""
    names = list(known)
    same = next((one for one in names if _letters(one) == _letters(name)), "")
    if same:
        return same
    closest = max(names, key=lambda one: (_likeness(name, one), -len(one)), default="")
    return closest if closest and _likeness(name, closest) >= _LIKE else ""


def _letters(name: str) -> str:
    """Without what only parts words: ``gangPreempt`` and ``gang-preempt`` are gangpreempt."""
    return re.sub(r"[^a-z0-9/*]", "", name.lower())


def _likeness(one: str, other: str) -> float:
    """Part of the words of both names that they have in common, 0 to 1; words that say little count little."""
    mine, theirs = _words(one), _words(other)
    common, every = mine & theirs, mine | theirs

    def told(words: Iterable[str]) -> float:
        return sum(0.15 if word in _FILLING else 1.0 for word in words)

    return told(common) / told(every) if common - _FILLING else 0.0


def _words(name: str) -> frozenset[str]:
    return frozenset(_spelled(name))


def _spelled(name: str) -> list[str]:
    """The words of a name in their order."""
    parts = (part.lower() for part in _PARTS.findall(name))
    return [word for part in parts for word in _SAME.get(part, part).split()]


@dataclass(frozen=True, slots=True)
class Value:
    """One YAML node: what it holds, and where. ``key`` is its path, such as ``tiers[0].plugins[1].name``."""

    node: yaml.Node
    file: str
    key: str

    @property
    def line(self) -> int:
        """1-based line on which the value starts."""
        return int(self.node.start_mark.line) + 1

    @property
    def is_null(self) -> bool:
        """Nothing is written behind the key."""
        return self.node.tag == "tag:yaml.org,2002:null"

    @property
    def is_collection(self) -> bool:
        """A list or a map."""
        return isinstance(self.node, yaml.CollectionNode)

    def fail(self, message: str) -> NoReturn:
        """Raise ConfigError for this value."""
        raise ConfigError(message, file=self.file, line=self.line, key=self.key)

    def plain(self) -> Any:
        """The value as Python objects, read by YAML's safe rules."""
        try:
            return SafeConstructor().construct_document(self.node)
        except (ConstructorError, ValueError) as error:
            self.fail(f"{self.key} cannot be read: {getattr(error, 'problem', None) or error}")

    def items(self) -> list[tuple[str, Value, Value]]:
        """Entries of a map as (key, the key's own position, value); fails on anything else or a repeated key."""
        if self.is_null:
            return []
        if not isinstance(self.node, yaml.MappingNode):
            self.fail(f"{self.key or 'the file'} must be a map of keys to values")
        entries: list[tuple[str, Value, Value]] = []
        seen: set[str] = set()
        merged = any(key.tag == "tag:yaml.org,2002:merge" for key, _ in self.node.value)
        if merged:  # the overriding entry follows the merged one
            SafeConstructor().flatten_mapping(self.node)
        for key_node, value_node in self.node.value:
            name = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else ""
            path = f"{self.key}.{name}" if self.key else name
            at = Value(key_node, self.file, path)
            if not name:
                at.fail(f"a key of {self.key or 'the file'} is not a plain name")
            if name in seen and not merged:
                at.fail(f"{path} is given twice; keep one of the two")
            seen.add(name)
            entries.append((name, at, Value(value_node, self.file, path)))
        return entries

    def elements(self) -> list[Value]:
        """Elements of a list; fails on anything else."""
        if self.is_null:
            return []
        if not isinstance(self.node, yaml.SequenceNode):
            self.fail(f"{self.key} must be a list")
        return [Value(node, self.file, f"{self.key}[{index}]") for index, node in enumerate(self.node.value)]

    def embedded(self) -> Value:
        """What a text holds that is JSON or YAML itself; lines go on counting in the file. Anything else as it is."""
        if not isinstance(self.node, yaml.ScalarNode) or self.is_null:
            return self
        # The text of a block begins on the line below its indicator.
        above = self.node.start_mark.line + (self.node.style in ("|", ">"))
        try:
            inner = parse("\n" * above + str(self.node.value), self.file)
        except ConfigError as error:
            last = above + len(str(self.node.value).splitlines())
            raise ConfigError(
                f"{self.key} must be a map, or the same as JSON text",
                file=self.file,
                line=min(error.line, last),
                key=self.key,
            ) from None
        return self if inner is None else Value(inner.node, self.file, self.key)

    def named_in(self, message: str) -> Value:
        """The key inside this value that a message names, the last one; the value itself where it names none."""
        words, named = set(re.findall(r"[\w./*-]+", message)), self
        inner = self.items() if isinstance(self.node, yaml.MappingNode) else []
        for key, at, entry in inner:
            deeper = entry.named_in(message)
            if deeper is not entry:
                named = deeper
            elif key in words:
                named = at
        for element in self.elements() if isinstance(self.node, yaml.SequenceNode) else []:
            deeper = element.named_in(message)
            named = deeper if deeper is not element else named
        return named

    def text(self) -> str:
        """A non-empty string."""
        value = self.plain()
        if not isinstance(value, str) or not value.strip():
            self.fail(f"{self.key} must be a text")
        return value

    def boolean(self) -> bool:
        """``true`` or ``false``, unquoted."""
        value = self.plain()
        if not isinstance(value, bool):
            self.fail(f"{self.key} must be true or false, not {value!r}")
        return value

    def entries(
        self,
        readers: Mapping[str, Callable[[Value], object]],
        what: str,
        problems: Problems | None = None,
        hint: Callable[[str], str] = lambda name: "",
    ) -> None:
        """Hand each entry of a map to its reader; an unknown key fails with its ``hint``, or the nearest known one.

        ``problems`` takes the error of each entry, so that the next one is read; without it the first error is raised.
        """
        for name, at, value in self.items():
            with problems.kept() if problems is not None else nullcontext():
                if name not in readers:
                    at.fail(f"unknown key {name} in {what}{hint(name) or suggestion(name, readers)}")
                readers[name](value)
