"""A plug-in that is measured is asked exactly as one that is not."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any, cast

import pytest

from unisono.engine.plugin_host.stopwatch import Stopwatch


class Asked:
    """A plug-in with a hook that takes an argument by its name, as ``network-topology-aware`` does."""

    config = SimpleNamespace(name="asked")

    def domain_gradients(self, job: str, *, evict: bool) -> tuple[str, bool]:
        return job, evict


@pytest.mark.parametrize("measured", [False, True])
def test_arguments_reach_a_plugin_measured_or_not(measured: bool) -> None:
    watch = Stopwatch(itertools.count().__next__ if measured else None)
    hook = watch.watched(cast(Any, Asked()), "domain_gradients")
    assert hook("train", evict=True) == ("train", True)
    assert bool(watch.seconds) is measured
