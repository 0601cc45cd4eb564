"""Virtual time under the name by which corpora outside of the repository import it."""

from unisono.standalone.shadow import LoopClock, VirtualLoop

__all__ = ["LoopClock", "VirtualLoop"]
