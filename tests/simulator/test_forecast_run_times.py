"""Possible run times: those of jobs like it, scaled to what is known of a job, and beyond what it has run already."""

from __future__ import annotations

import random
from statistics import stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.simulator.forecast.live import Guess
from unisono.simulator.forecast.past import Draws, Ran, Spread

STATED = Guess(1000.0, known=True, stated=True, limit=1000.0, gpus=1)
SHOWN = Guess(100.0, known=True, stated=False, shown=100.0, gpus=1)
BOTH = Guess(100.0, known=True, stated=False, limit=1000.0, shown=100.0, gpus=1)
_RAN = st.builds(
    Ran, st.floats(1, 1e6), st.sampled_from([0.0, 60.0, 3600.0]), st.sampled_from([0.0, 5.0]), st.just(1.0)
)
UNKNOWN = Guess(3600.0, known=False, stated=False, gpus=1)

RAN = st.builds(Ran, st.floats(1, 1e6), st.sampled_from([0.0, 60.0, 3600.0]), st.sampled_from([0.0, 5.0]), st.just(1))


def drawn(spread: Spread, guess: Guess, elapsed: float = 0.0, times: int = 200) -> set[float]:
    draws = Draws(spread, random.Random(1))  # nosec B311
    return {round(draws.run_time(kind, guess, elapsed), 6) for kind in range(times)}


def test_a_guess_is_scaled_by_what_jobs_like_it_made_of_theirs() -> None:
    spread = Spread([Ran(seconds, 200.0, 0.0, 1) for seconds in range(5, 25)])
    assert drawn(spread, STATED) == {seconds * 5.0 for seconds in range(5, 25)}


def test_jobs_with_limits_like_it_tell_more_than_others() -> None:
    near = [Ran(900.0, 1000.0, 0.0, 1)] * 30
    far = [Ran(1.0, 100_000.0, 0.0, 1)] * 200
    assert drawn(Spread([*far, *near]), STATED, times=50) == {900.0}


def test_of_jobs_without_a_guess_all_that_have_run_tell() -> None:
    spread = Spread([Ran(40.0, 0.0, 0.0, 1), Ran(70.0, 100.0, 50.0, 1)] * 15)
    assert drawn(spread, UNKNOWN) == {40.0, 70.0}


def test_what_has_been_outlived_does_not_count() -> None:
    spread = Spread([Ran(10.0, 0.0, 20.0, 1)] * 50 + [Ran(50.0, 0.0, 20.0, 1)] * 10)
    assert drawn(spread, SHOWN, elapsed=60.0) == {250.0}


def test_nobody_goes_further_beyond_a_limit_than_others_have() -> None:
    spread = Spread([Ran(90.0, 100.0, 3.0, 1)] * 30)
    assert drawn(spread, BOTH) == {1000.0}


@pytest.mark.parametrize("guess", [STATED, SHOWN, BOTH, UNKNOWN])
@given(elapsed=st.floats(0, 1e6), ran=st.lists(RAN, max_size=60))
def test_a_run_time_is_one_that_is_not_over(guess: Guess, elapsed: float, ran: list[Ran]) -> None:
    draws = Draws(Spread(ran), random.Random(3))  # nosec B311
    assert draws.run_time("kind", guess, elapsed) >= elapsed


def test_jobs_of_one_kind_are_long_or_short_together() -> None:
    spread = Spread([Ran(seconds, 200.0, 0.0, 1) for seconds in range(1, 101)])
    futures = [Draws(spread, random.Random(seed)) for seed in range(200)]  # nosec B311

    def means(kinds: list[str]) -> list[float]:
        return [sum(future.run_time(kind, STATED, 0.0) for kind in kinds) / len(kinds) for future in futures]

    alike, apart = means(["a"] * 30), means([str(number) for number in range(30)])
    assert stdev(alike) > 2 * stdev(apart)
