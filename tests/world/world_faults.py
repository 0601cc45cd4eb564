"""Deliberate faults: each is put into the imported code, and the worlds are asked whether they find it.

Each names a kind of worlds. ``python tests/world/world_faults.py`` puts in all of them, one after the other, and prints
which share of these worlds finds each; with names of faults only these. The sources on the disk stay as they are.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType

from world_fault_table import FAULTS, Fault
from world_plane import lived, sweep
from world_profiles import seeds_of, story

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]
_SOURCES = _ROOT / "src"


def source_of(module: str) -> Path:
    """The file of a module."""
    return _SOURCES / Path(*module.split(".")).with_suffix(".py")


def faulty(fault: Fault) -> dict[str, str]:
    """The texts of the modules with the fault.

    Raises:
        ValueError: a text that the fault changes is not there once.

    """
    found = {}
    for module, changes in fault.changes.items():
        text = source_of(module).read_text()
        for old, new in changes:
            if text.count(old) != 1:
                raise ValueError(f"{fault.name}: {module} has {text.count(old)} times what it changes")
            text = text.replace(old, new)
        found[module] = text
    return found


@contextmanager
def put_in(fault: Fault) -> Iterator[None]:
    """The functions of the imported modules have the fault meanwhile."""
    sound: dict[FunctionType, CodeType] = {}
    for module, text in faulty(fault).items():
        importlib.import_module(module)
        spoiled = _spoil(source_of(module), text)
        if not spoiled:
            raise ValueError(f"{fault.name} changes no function of {module}")
        sound |= spoiled
    try:
        yield
    finally:
        for function, code in sound.items():
            function.__code__ = code


def _spoil(path: Path, text: str) -> dict[FunctionType, CodeType]:
    """Give the functions of a file those codes of ``text`` that differ; answers what they had."""
    file = str(path)
    places = {_at(code): name for name, code in _codes(path.read_text(), file).items()}
    spoiled, sound = _codes(text, file), {}
    gc.unfreeze()  # what is frozen is not listed
    for function in [one for one in gc.get_objects() if isinstance(one, FunctionType)]:
        code = function.__code__
        place = places.get(_at(code)) if code.co_filename == file else None
        if place in spoiled and not _alike(code, spoiled[place]):
            sound[function] = code
            function.__code__ = spoiled[place]
    return sound


def _codes(text: str, file: str) -> dict[tuple[str, int], CodeType]:
    """By name and number among those of that name: of a property there may be two."""
    found: dict[tuple[str, int], CodeType] = {}
    codes = [compile(text, file, "exec")]
    for code in codes:
        codes += [one for one in code.co_consts if isinstance(one, CodeType)]
        number = sum(1 for name, _ in found if name == code.co_qualname)
        found[code.co_qualname, number] = code
    return found


def _at(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def _alike(one: CodeType, other: CodeType) -> bool:
    """Whether two codes do the same."""
    inner = list(zip(one.co_consts, other.co_consts, strict=False))
    return (one.co_code, one.co_names, one.co_varnames, len(one.co_consts)) == (
        other.co_code,
        other.co_names,
        other.co_varnames,
        len(other.co_consts),
    ) and all(_alike(a, b) if isinstance(a, CodeType) and isinstance(b, CodeType) else a == b for a, b in inner)


@dataclass(frozen=True, slots=True)
class Hunt:
    """What worlds found with a fault.

    Attributes:
        lived: seeds that were lived.
        found: of these, those that found something, and what.
        seconds: of CPU.

    """

    lived: list[int]
    found: dict[int, str]
    seconds: float


def hunted(fault: Fault, seeds: Iterable[int], seconds: float = 60.0, enough: int = 1) -> Hunt:
    """Live worlds with the fault until so many found it, or ``seconds`` of CPU are over."""
    begun, tried, found = time.process_time(), list[int](), dict[int, str]()
    with put_in(fault), ExitStack() as after:
        after.callback(sweep)
        for seed in seeds:
            outcome = lived(story(seed, short=True), until=bool)
            tried.append(seed)
            if outcome.found:
                found[seed] = outcome.found[0]
            if len(found) >= enough or time.process_time() - begun > seconds:
                break
    return Hunt(tried, found, time.process_time() - begun)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--worlds", type=int, default=4, help="of its kind, for each fault")
    parser.add_argument("--seeds", help="A-B, instead of the first of its kind")
    parser.add_argument("--seconds", type=float, default=60.0, help="CPU seconds for each fault")
    given = parser.parse_args()
    if unknown := set(given.names) - {fault.name for fault in FAULTS}:
        parser.error(f"no fault is called {', '.join(sorted(unknown))}")
    missed = 0
    for fault in [fault for fault in FAULTS if fault.name in given.names or not given.names]:
        first, _, last = (given.seeds or "0").partition("-")
        seeds = range(int(first), int(last or first) + 1) if given.seeds else seeds_of(fault.kind, given.worlds)
        hunt = hunted(fault, seeds, given.seconds, enough=len(seeds))
        what = next(iter(hunt.found.values()), fault.hidden)
        missed += len(hunt.found) * 2 < len(hunt.lived)
        share = f"{len(hunt.found)}/{len(hunt.lived)}"
        each = hunt.seconds / max(len(hunt.found), 1)
        print(f"{fault.name:48} {fault.kind:12} {share:6} {each:5.1f} s a finding: {what[:140]}", flush=True)
    print(f"{missed} are found by fewer than half of the worlds")
    return missed


if __name__ == "__main__":
    sys.exit(main())
