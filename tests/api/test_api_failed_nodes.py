"""The book of nodes on which pods of a job have failed."""

from __future__ import annotations

import pytest

from unisono.api.failed_nodes import HALF_LIFE, Failures, avoided, book_of, failed, text_of

NOON = 1_700_000_000.0


def test_the_second_failure_bars_a_node_for_an_hour_and_the_fourth_for_two() -> None:
    book = failed({}, "n", NOON)
    assert avoided(book, NOON) == {}
    book = failed(book, "n", NOON)
    assert avoided(book, NOON) == {"n": NOON + HALF_LIFE}
    assert avoided(book, NOON + HALF_LIFE) == {}
    four = failed(failed(book, "n", NOON), "n", NOON)
    assert avoided(four, NOON + HALF_LIFE) == {"n": NOON + 2 * HALF_LIFE}


def test_failures_far_apart_bar_nothing() -> None:
    book = failed(failed({}, "n", NOON), "n", NOON + 24 * HALF_LIFE)
    assert book["n"].number == pytest.approx(1.0, abs=1e-6)
    assert avoided(book, NOON + 24.1 * HALF_LIFE) == {}


def test_text_is_read_as_it_was_written_and_forgets() -> None:
    book = {"b": Failures(2.0, NOON), "a": Failures(1.0, NOON - 10 * HALF_LIFE)}
    assert text_of(book, NOON) == "b=2@2023-11-14T22:13:20Z"
    assert book_of(text_of(book, NOON)) == {"b": Failures(2.0, NOON)}
    many = {f"n{number:03}": Failures(1.0 + number, NOON) for number in range(100)}
    assert len(book_of(text_of(many, NOON))) == 32 and "n099" in book_of(text_of(many, NOON))


@pytest.mark.parametrize(
    "text", [None, "", "n", "n=2", "n=x@2023-11-14T22:13:20Z", "n=2@soon", "=2@2023-11-14T22:13:20Z", "n=nan@1", ",,"]
)
def test_what_cannot_be_read_is_left_out(text: str | None) -> None:
    assert book_of(text) == {}


@pytest.mark.parametrize("junk", ["x,", "a=1@,", "=,", "n=1e@2023-11-14T22:13:20Z,", ",", "\u0663,"])
def test_a_book_that_somebody_wrote_too_long_is_hardly_read(junk: str) -> None:
    read: list[str] = []

    class Counted(str):
        __slots__ = ()

        def __getitem__(self, key: object) -> str:
            read.append(str(key))
            return str.__getitem__(self, key)  # type: ignore[index]

    entry = "good=2@2023-11-14T22:13:20Z"
    assert book_of(Counted(junk * 100_000 + entry)) == {}
    assert len(read) == 1, "it is cut before anything else"
    assert "good" in book_of(junk * 10 + entry)


@pytest.mark.parametrize("number", ["nan", "inf", "-1", "0", "1e9"])
def test_numbers_that_are_none(number: str) -> None:
    assert book_of(f"n={number}@2023-11-14T22:13:20Z") == {}
