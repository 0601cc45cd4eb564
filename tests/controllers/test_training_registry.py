"""Which training controllers run: all, unless a kind is left to its own operator or not served at all."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from controller_world import Recorder, at_once
from training_world import pytorch

from support.memory import MemoryClient
from support.virtual_clock import settle
from unisono.api.decode import decode
from unisono.api.kind_families import MPI_JOBS, PYTORCH_JOBS, RUN_KINDS, TRAINING_KINDS
from unisono.api.kinds import POD_GROUPS
from unisono.controllers.training.registry import KINDS, training_controllers
from unisono.errors import ConfigError, NotFound, Unavailable
from unisono.kube.controller import Controller, Manager


def test_every_kind_with_a_status_has_a_controller():
    assert sorted(KINDS) == sorted(kind.kind for kind in RUN_KINDS)


def test_foreign_kinds_have_none():
    names = [each.name for each in training_controllers(Recorder(), at_once, ["PyTorchJob", "RayJob"])]
    assert "pytorchjob-controller" not in names
    assert "rayjob-controller" not in names
    assert len(names) == len(KINDS) - 2


def test_an_unknown_kind_is_refused():
    known = ", ".join(sorted(kind.kind for kind in RUN_KINDS))
    with pytest.raises(ConfigError, match=f"unknown kind Pytorchjob: the kinds to choose from are {known}$"):
        training_controllers(Recorder(), at_once, ["Pytorchjob"])


async def test_kinds_that_are_not_served_are_waited_for_quietly():
    client = MemoryClient()
    served: set[str] = set()

    def missing(operation: str, resource: str, namespace: str, name: str) -> None:
        if resource in {kind.plural for kind in TRAINING_KINDS} - served:
            raise NotFound("the server could not find the requested resource")

    client.interceptor = missing
    manager = Manager(client, clock=client.clock)
    running = asyncio.create_task(manager.run(training_controllers(Recorder(), at_once)))
    await settle(100)
    assert manager.ready.is_set()
    # Its definition is installed later: its jobs are found without a restart.
    served.add("pytorchjobs")
    await client.create(PYTORCH_JOBS, decode(PYTORCH_JOBS, pytorch()).obj)
    await client.clock.advance(61)
    await settle(100)
    assert [group.metadata.name for group in client.objects(POD_GROUPS)] == ["j"]
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


class Seeing(Controller):
    """Notes the keys of one kind."""

    def __init__(self, kind) -> None:
        self.kind, self.name, self.seen = kind, f"seeing-{kind.plural}", []

    def setup(self, context):
        context.watch(self.kind, optional=True)

    async def reconcile(self, key):
        self.seen.append(key)


async def test_a_controller_that_is_added_does_not_wait_for_the_kinds_of_others():
    client = MemoryClient()

    def broken(operation: str, resource: str, namespace: str, name: str) -> None:
        if resource == MPI_JOBS.plural:
            raise Unavailable("the conversion webhook does not answer")

    client.interceptor = broken
    await client.create(PYTORCH_JOBS, decode(PYTORCH_JOBS, pytorch()).obj)
    manager = Manager(client, clock=client.clock)
    running = asyncio.create_task(manager.run([]))
    await settle()
    stuck, well = Seeing(MPI_JOBS), Seeing(PYTORCH_JOBS)
    manager.add(stuck)
    manager.add(well)
    await settle(100)
    assert (stuck.seen, well.seen) == ([], ["ns/j"])
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
