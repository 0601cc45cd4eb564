"""How long jobs may hold GPUs that they do not use, as queues state it in ``unisono.io/idle-gpus`` (pure).

``below=5%,after=2h,notice=15m,then=Stop,most=12h``: a job of whose GPUs less is used for that long is told, and stopped
after a notice or only told. Its annotation ``unisono.io/idle-after`` asks for more time, of which it gets ``most``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from unisono.api.annotations import IDLE_AFTER
from unisono.api.times import duration_or_none

WARN, STOP = "Warn", "Stop"
_LEAST, _LONGEST = 60.0, 366 * 86_400.0
_FORM = "write below=5%,after=2h,notice=15m,then=Stop,most=12h, for example; after must be there"


@dataclass(frozen=True, slots=True)
class IdlePolicy:
    """What a queue says.

    Attributes:
        below: percent of its GPUs that a job uses less of.
        after: seconds of that after which it is told.
        notice: seconds between that and its end.
        stops: it is stopped, and not only told.
        most: seconds that a job may ask for in place of ``after``.
    """

    below: float
    after: float
    notice: float
    stops: bool
    most: float

    def patience(self, annotations: Mapping[str, str]) -> float:
        """Seconds after which a job with these annotations is told; what cannot be read asks for nothing."""
        asked = duration_or_none(annotations.get(IDLE_AFTER)) or 0.0
        return max(self.after, min(asked, self.most))


def policy_of(text: str) -> IdlePolicy | None:
    """Read the annotation of a queue; None for none.

    Raises:
        ValueError: it breaks a rule; the message gives the right form.
    """
    if not text.strip():
        return None
    settings: dict[str, str] = {}
    for part in text.split(","):
        key, _, value = (each.strip() for each in part.partition("="))
        if key in settings or key not in ("below", "after", "notice", "then", "most"):
            raise ValueError(f"{part.strip()!r} is not known or stands there twice: {_FORM}")
        settings[key] = value
    after = _seconds(settings.get("after", ""), _LEAST)
    below = settings.get("below", "5%")
    number = below.removesuffix("%")
    if not below.endswith("%") or not number.isascii() or not number.isdigit() or not 1 <= int(number) <= 100:
        raise ValueError(f"below={below} is no part from 1% to 100%: {_FORM}")
    then = settings.get("then", WARN)
    if then not in (WARN, STOP):
        raise ValueError(f"then={then} is neither {WARN} nor {STOP}: {_FORM}")
    notice = _seconds(settings["notice"], 0.0) if "notice" in settings else 0.0
    most = _seconds(settings["most"], _LEAST) if "most" in settings else after
    return IdlePolicy(float(number), after, notice, then == STOP, most)


def _seconds(text: str, least: float) -> float:
    seconds = duration_or_none(text)
    if seconds is None or not least <= seconds <= _LONGEST:
        raise ValueError(f"{text!r} is no time of at least {least:g} seconds: {_FORM}")
    return seconds
