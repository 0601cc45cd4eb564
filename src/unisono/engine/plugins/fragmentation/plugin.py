"""fragmentation: prefers the node, and on it the card, whose idle GPUs stay most useful to the cluster's usual pods.

Fragmentation gradient descent; the formulas are in `unisono.engine.plugins.fragmentation.formula`.
"""

from __future__ import annotations

from functools import cached_property

from unisono.api.keys import NVIDIA_GPU
from unisono.cluster.podclass import PodClass
from unisono.engine.answers import FloatArray
from unisono.engine.config.arguments import Argument, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugins.deviceshare.book import DeviceBook, FamilyBook
from unisono.engine.plugins.deviceshare.table import Index, Ints
from unisono.engine.plugins.fragmentation.gpus import COVERAGE, Gpus
from unisono.engine.session.node_view import NodeView
from unisono.engine.session.session import Session

_WEIGHT = Argument("fragmentation.weight", "int", 1, "multiplies the score; 0 switches the plug-in off")
_COVERAGE = Argument("fragmentation.coverage", "float", COVERAGE, "share of the pods that make up the usual ones")
_RESOURCE = Argument("fragmentation.resource", "text", NVIDIA_GPU, "name of whole GPUs")


class FragmentationPlugin(Plugin):
    """Scores nodes by what a placement does to fragmentation, and chooses shared cards by it."""

    name = "fragmentation"
    pure = False
    known_arguments = (_WEIGHT, _COVERAGE, _RESOURCE)

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        self.weight = int(argument_value(_WEIGHT, self.arguments))

    def open(self, session: Session) -> None:
        """Look at nothing yet: without pending pods there is nothing to do."""
        self.session = session
        self.devices = DeviceBook.of(session)
        if self.weight:
            self.devices.prefer(self._prefer)

    @cached_property
    def gpus(self) -> Gpus:
        """The cluster's GPUs; which cards are shared is known when every plug-in is open."""
        coverage = float(argument_value(_COVERAGE, self.arguments))
        return Gpus(self.session, self.devices, str(argument_value(_RESOURCE, self.arguments)), coverage)

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
