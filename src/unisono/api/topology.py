"""Network topology constraints of jobs and pod groups."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from unisono.api.base import Base
from unisono.api.fields import LongName


class NetworkTopologySpec(Base):
    """How close pods must be in the network.

    Attributes:
        mode: "hard" must hold, "soft" is a preference.
        highest_tier_allowed: the highest HyperNode tier that may join the pods.
        highest_tier_name: the same by name; excludes ``highestTierAllowed``.

    """

    mode: Annotated[str, Meta(extra_json_schema={"enum": ["hard", "soft"], "default": "hard"})] | None = None
    highest_tier_allowed: Annotated[int, Meta(extra_json_schema={"minimum": 0})] | None = None
    highest_tier_name: LongName | None = None
