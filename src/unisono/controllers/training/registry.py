"""The controllers of training frameworks, each of which can be left to the framework's own operator."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

from unisono.controllers.execution import Offload
from unisono.controllers.recorder import Recorder
from unisono.controllers.training.controller import TrainingController
from unisono.controllers.training.jobset.controller import JobSetController
from unisono.controllers.training.kubeflow.controller import FRAMEWORKS, KubeflowController
from unisono.controllers.training.ray.controller import RayClusterController, RayJobController, RayServiceController
from unisono.controllers.training.trainjob.controller import TrainJobController
from unisono.errors import ConfigError
from unisono.jobkinds.registry import ALL
from unisono.kube.controller import Controller

_CONTROLLERS: tuple[type[TrainingController[Any]], ...] = (
    TrainJobController,
    JobSetController,
    RayClusterController,
    RayJobController,
    RayServiceController,
)
KINDS = (*(each.kind.kind for each in FRAMEWORKS), *(each.kind.kind for each in _CONTROLLERS))
MADE_BY_MEMBERS = frozenset(each.kind.kind for each in ALL if each.fleet == "whole" and each.kind.kind in KINDS)
"""Kinds whose pods the members of a fleet make; the others become objects of these kinds."""


def check_kinds(kinds: Collection[str]) -> None:
    """Raise ConfigError unless all of these are kinds that have a controller here."""
    unknown = sorted(set(kinds) - set(KINDS))
    if unknown:
        raise ConfigError(f"unknown kind {', '.join(unknown)}: the kinds to choose from are {', '.join(sorted(KINDS))}")


def training_controllers(
    recorder: Recorder, offload: Offload = asyncio.to_thread, foreign_kinds: Collection[str] = ()
) -> list[Controller]:
    """One controller per kind.

    Args:
        recorder: records events.
        offload: runs what computes for long away from the event loop.
        foreign_kinds: kinds, such as ``PyTorchJob``, that an operator of their own runs: they get no controller here.

    Raises:
        ConfigError: a foreign kind is none that could be run here.

    """
    check_kinds(foreign_kinds)
    made: dict[str, Controller] = {
        **{each.kind.kind: KubeflowController(each(), recorder, offload) for each in FRAMEWORKS},
        **{each.kind.kind: each(recorder, offload) for each in _CONTROLLERS},
    }
    return [controller for kind, controller in made.items() if kind not in foreign_kinds]
