"""fragmentation: prefers the node, and on it the card, whose idle GPUs stay most useful to the cluster's usual pods.

Fragmentation gradient descent; the formulas are in `unisono.engine.plugins.fragmentation.workload`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from unisono.api.keys import NVIDIA_GPU
from unisono.cluster.podclass import PodClass
from unisono.engine.answers import FloatArray
from unisono.engine.config.arguments import Argument, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugins.deviceshare.book import DeviceBook, FamilyBook
from unisono.engine.plugins.deviceshare.table import Index, Ints
from unisono.engine.plugins.fragmentation.gpus import GivenUsual, Gpus, Items, Seen, present
from unisono.engine.plugins.fragmentation.workload import COVERAGE, Measure
from unisono.engine.session.node_view import NodeView
from unisono.engine.session.session import Session
from unisono.errors import ConfigError

_WEIGHT = Argument("fragmentation.weight", "int", 1, "multiplies the score; 0 switches the plug-in off")
_RESOURCE = Argument("fragmentation.resource", "text", NVIDIA_GPU, "name of whole GPUs")
_USUAL = Argument("fragmentation.usual", "text", "present", "which pods are usual: present or seen")
_GIVEN = Argument("fragmentation.pods", "list", None, "the usual pods: a list of pods (how many) and spec (of each)")
_COVERAGE = Argument("fragmentation.coverage", "float", COVERAGE, "share of the pods that make up the usual ones")
_BALANCE = Argument(
    "fragmentation.balance", "float", 0.0, "GPUs are of use as far as idle CPU reaches, times this; 0: off"
)
_SIZE = Argument("fragmentation.sizeExponent", "float", 0.0, "pods count by their GPUs to the power of this")
_SCARCITY = Argument(
    "fragmentation.scarcity", "float", 0.0, "how much kinds of nodes are spared for pods that need them"
)

_USUALS = ("present", "seen")
_LARGEST = 1000.0
_STEEPEST = 4.0


class FragmentationPlugin(Plugin):
    """Scores nodes by what a placement does to fragmentation, and chooses shared cards by it."""

    name = "fragmentation"
    pure = False
    known_arguments = (_WEIGHT, _RESOURCE, _USUAL, _GIVEN, _COVERAGE, _BALANCE, _SIZE, _SCARCITY)

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        self.weight = int(self._value(_WEIGHT))
        self.source = str(self._value(_USUAL))
        if self.source not in _USUALS:
            raise ConfigError(f"{_USUAL.key} must be one of {', '.join(_USUALS)}, not {self.source}")
        for argument in (_BALANCE, _SCARCITY):
            if not 0 <= self._value(argument) <= _LARGEST:
                raise ConfigError(f"{argument.key} must be between 0 and {_LARGEST}")
        if not abs(self._value(_SIZE)) <= _STEEPEST:
            raise ConfigError(f"{_SIZE.key} must be between -{_STEEPEST} and {_STEEPEST}")
        try:
            self.given = None if self._value(_GIVEN) is None else GivenUsual(self._value(_GIVEN))
        except ValueError as error:
            raise ConfigError(f"{_GIVEN.key}: {error}") from error

    def _value(self, argument: Argument) -> Any:
        return argument_value(argument, self.arguments)

    def open(self, session: Session) -> None:
        """Look at nothing yet: without pending pods there is nothing to do."""
        self.session = session
        self.devices = DeviceBook.of(session)
        if self.weight:
            self.devices.prefer(self._prefer)

    @cached_property
    def gpus(self) -> Gpus:
        """The cluster's GPUs; which cards are shared is known when every plug-in is open."""
        return Gpus(
            self.session,
            self.devices,
            str(self._value(_RESOURCE)),
            Measure(self._value(_COVERAGE), self._value(_BALANCE), self._value(_SIZE)),
            self._value(_SCARCITY),
            self._usual,
        )

    def _usual(self, session: Session, resource: str, books: list[FamilyBook]) -> Items:
        if self.given is not None:
            return self.given.items(session, resource, books)
        if self.source == "seen":
            return session.snapshot.memo.of(Seen, Seen).look(session, resource, books)
        return present(session, resource, books)

    def _prefer(self, book: FamilyBook, pod_class: PodClass, rows: Index, placed: bool) -> Ints:
        return self.gpus.prefer(book, pod_class, rows, placed)

    def concerns(self, pod_class: PodClass) -> bool:
        """Every pod, where there are GPUs: one without GPU takes CPU away from them."""
        return bool(self.weight and self.gpus.present.any())

    def is_pure(self, pod_class: PodClass) -> bool:
        """Whole GPUs that are all alike."""
        return self.gpus.uniform

    def score(self, pod_class: PodClass, nodes: NodeView) -> FloatArray | None:
        """0 to 100 times the weight; 50 where a placement changes nothing."""
        return self.weight * self.gpus.points(pod_class, nodes).astype(float)
