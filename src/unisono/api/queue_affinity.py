"""Node groups in the affinity of a queue: another name in place of one (pure)."""

from __future__ import annotations

import msgspec

from unisono.api.scheduling import QueueAffinity


def with_group(affinity: QueueAffinity, name: str, instead: str) -> QueueAffinity:
    """The same rules for the group ``instead`` in place of ``name``."""
    rules = msgspec.to_builtins(affinity)
    for part in filter(None, rules.values()):
        for each, groups in part.items():
            part[each] = groups and [instead if one == name else one for one in groups]
    return msgspec.convert(rules, QueueAffinity)
