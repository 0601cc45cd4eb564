"""Runs the cases of a suite, one JSON line each, and goes on where an earlier run was stopped."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Case:
    """One run: a pure function of its parameters.

    Attributes:
        suite: name of the suite.
        key: what tells the case from others of the suite; written into its line.
        call: works out the figures; must be importable, and so must its arguments be.
        arguments: of ``call``.
    """

    suite: str
    key: Mapping[str, Any]
    call: Callable[..., dict[str, Any]]
    arguments: tuple[Any, ...]

    @property
    def name(self) -> str:
        """The key as text."""
        return " ".join(str(value) for value in self.key.values())


class Only:
    """What of a suite is run: values of its axes that were named, or all.

    Attributes:
        named: on the command line.
        unknown: those of them that no axis has had so far.
    """

    def __init__(self, named: Iterable[str] = ()) -> None:
        self.named = tuple(named)
        self.unknown = set(self.named)
        self.known: set[str] = set()

    def of(self, values: Iterable[T], besides: Iterable[T] = ()) -> list[T]:
        """The named ones of ``values``, and of what can be had only by its name; all values where none is named."""
        usual = list(values)
        every = {str(value): value for value in (*usual, *besides)}
        self.known |= every.keys()
        self.unknown -= every.keys()
        return [value for name, value in every.items() if name in self.named] or usual


def done(file: Path) -> list[dict[str, Any]]:
    """The lines of a file of results; a line that was cut short counts as not there."""
    found = []
    if file.exists():
        for line in file.read_text(encoding="utf-8").splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
    return found


def _identity(record: Mapping[str, Any], key: Iterable[str]) -> tuple[Any, ...]:
    return (record.get("suite"), *(record.get(name) for name in key))


def missing(cases: Iterable[Case], file: Path) -> list[Case]:
    """Cases without a line in the file."""
    lines = done(file)
    return [
        case
        for case in cases
        if not any(_identity(line, case.key) == (case.suite, *case.key.values()) for line in lines)
    ]


def run_all(cases: list[Case], file: Path, processes: int, say: Callable[[str], None]) -> None:
    """Run the cases that the file does not have, and append a line for each."""
    todo = missing(cases, file)
    say(f"{len(cases) - len(todo)} of {len(cases)} runs are in {file}")
    began = time.monotonic()
    torn = file.exists() and not file.read_text(encoding="utf-8").endswith("\n")
    with file.open("a", encoding="utf-8") as out:
        out.write("\n" if torn else "")
        for number, (case, figures) in enumerate(_results(todo, processes), start=1):
            out.write(json.dumps({"suite": case.suite, **case.key, **figures}) + "\n")
            out.flush()
            spent = time.monotonic() - began
            left = spent / number * (len(todo) - number)
            say(f"{number}/{len(todo)} {case.suite} {case.name}: {_short(figures)}; about {left:.0f} s left")


def _short(figures: Mapping[str, Any]) -> str:
    numbers = [(name, value) for name, value in figures.items() if isinstance(value, (int, float))]
    return ", ".join(f"{name} {value:g}" for name, value in numbers[:4])


def _call(case: Case) -> dict[str, Any]:
    return case.call(*case.arguments)


def _results(cases: list[Case], processes: int) -> Iterator[tuple[Case, dict[str, Any]]]:
    if processes < 2:
        yield from ((case, _call(case)) for case in cases)
        return
    with ProcessPoolExecutor(processes) as pool:
        running: dict[Future[dict[str, Any]], Case] = {pool.submit(_call, case): case for case in cases}
        while running:
            ready, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in ready:
                yield running.pop(future), future.result()


def to_stderr(text: str) -> None:
    """Say how far it is."""
    print(text, file=sys.stderr, flush=True)
