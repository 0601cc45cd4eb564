"""Addresses that do not answer are left alone, longer each time."""

from __future__ import annotations

from unisono.kube.pace import Circuits


class Clock:
    """Seconds that a test moves on."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


def broken(clock: Clock, failures: int = 3) -> Circuits:
    circuits = Circuits(clock.monotonic, failures=3, longest=4.0)
    for _ in range(failures):
        assert not circuits.rest("a")
        circuits.failed("a")
    return circuits


def test_an_address_rests_after_some_failures_in_a_row() -> None:
    assert not broken(Clock(), failures=2).rest("a")
    assert broken(Clock()).rest("a") == "3 calls in a row got no answer; asked again in 1.0 s"


def test_others_are_not_concerned() -> None:
    assert not broken(Clock()).rest("b")


def test_an_answer_ends_the_row() -> None:
    circuits = broken(Clock(), failures=2)
    circuits.answered("a")
    circuits.failed("a")
    assert not circuits.rest("a")


def test_one_caller_tries_after_the_rest_and_the_others_wait_for_it() -> None:
    clock = Clock()
    circuits = broken(clock)
    clock.now = 1.0
    assert not circuits.resting("a")
    assert not circuits.rest("a")
    assert circuits.rest("a")
    circuits.answered("a")
    assert not circuits.rest("a")


def test_rests_grow_up_to_the_longest() -> None:
    clock = Clock()
    circuits = broken(clock)
    rests = []
    for _ in range(5):
        begun = clock.now
        while circuits.resting("a"):
            clock.now += 0.5
        rests.append(clock.now - begun)
        assert not circuits.rest("a")
        circuits.failed("a")
    assert rests == [1.0, 2.0, 4.0, 4.0, 4.0]


def test_a_bounded_number_of_addresses_is_remembered() -> None:
    circuits = broken(Clock())
    for number in range(2000):
        circuits.failed(f"b{number}")
    assert not circuits.rest("a")
