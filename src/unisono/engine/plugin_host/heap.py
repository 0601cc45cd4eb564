"""Items in the order of their keys, of which the lowest is taken first."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Key = tuple[Any, ...]
Entry = tuple[Key, T]


class Heap(Generic[T]):
    """Items by key, lowest first; a key is read when an item is pushed.

    Most items are taken out once and never put back: those it starts with are sorted, which is cheap for what is nearly
    in order, and only those that are pushed later form a heap.

    Args:
        key: reads an item's key; must differ between items (end with the name).
        volatile: keys of waiting items may change with any placement: they are all read again before each `pop` and
            each `leads`.

    """

    __slots__ = ("_key", "_pushed", "_sorted", "_volatile")

    def __init__(self, key: Callable[[T], Key], items: Iterable[T] = (), *, volatile: bool = False) -> None:
        self._key = key
        self._volatile = volatile
        self._sorted: list[Entry[T]] = [(key(item), item) for item in items]
        self._sorted.sort(key=_key_of, reverse=True)
        self._pushed: list[Entry[T]] = []

    def __len__(self) -> int:
        return len(self._sorted) + len(self._pushed)

    def push(self, item: T) -> None:
        """Put an item (back) in, with its key as it is now."""
        heapq.heappush(self._pushed, (self._key(item), item))

    def pop(self) -> T:
        """Take the lowest item out."""
        if len(self) > 1:
            self._read_again()
        if self._pushed and (not self._sorted or self._pushed[0][0] < self._sorted[-1][0]):
            return heapq.heappop(self._pushed)[1]
        return self._sorted.pop()[1]

    def leads(self, item: T) -> bool:
        """Whether ``item``, which is not in it, would be the next one if it were put in."""
        self._read_again()
        key = self._key(item)
        return not any(entries and entries[at][0] < key for entries, at in ((self._sorted, -1), (self._pushed, 0)))

    def ahead(self, alike: Callable[[T], bool], most: int) -> list[T]:
        """The next items, in order, as long as they are ``alike``, at most ``most``; they stay in.

        None are seen where keys are volatile, or where an item that was put back comes first.
        """
        found: list[T] = []
        if self._volatile:
            return found
        bound = self._pushed[0][0] if self._pushed else None
        for key, item in reversed(self._sorted):
            if len(found) >= most or (bound is not None and bound < key) or not alike(item):
                break
            found.append(item)
        return found

    def take_while(self, passes: Callable[[T], bool]) -> int:
        """Take out the next items, in order, as long as they pass; how many did.

        ``passes`` must leave all keys as they are. None are taken where keys are volatile.
        """
        entries, pushed, number = self._sorted, self._pushed, 0
        while not self._volatile:
            if pushed and (not entries or pushed[0][0] < entries[-1][0]):
                if not passes(pushed[0][1]):
                    break
                heapq.heappop(pushed)
            elif entries and passes(entries[-1][1]):
                entries.pop()
            else:
                break
            number += 1
        return number

    def drop(self, number: int) -> None:
        """Take out the first ``number`` items that `ahead` has shown."""
        if number:
            del self._sorted[-number:]

    def items(self) -> list[T]:
        """What is waiting, in no particular order."""
        return [item for entries in (self._sorted, self._pushed) for _, item in entries]

    def _read_again(self) -> None:
        if self._volatile:
            self._sorted = [(self._key(item), item) for item in self.items()]
            self._sorted.sort(key=_key_of, reverse=True)
            self._pushed = []


def _key_of(entry: Entry[Any]) -> Key:
    return entry[0]
