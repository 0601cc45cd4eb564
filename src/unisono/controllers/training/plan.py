"""What a decision about a training job wants done besides what all kinds want; its conditions and keys."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from unisono.api.base import Condition
from unisono.api.conditions import find_condition
from unisono.api.core import Pod, Service
from unisono.controllers.objects import SLICE
from unisono.controllers.plan import BasePlan


@dataclass(slots=True)
class TrainingPlan(BasePlan):
    """Steps in order: annotations, status, notices, then objects, the pod group, Services, pods, and the job's own end.

    Attributes:
        annotations: of the job itself, to merge; None as a value removes one.
        delete_services: Services of pods to delete.
        create_services: Services of pods to make.
        create_pods: make the pods, in order; each is built when its turn has come.
        delete_job: the job's time is over.

    """

    annotations: dict[str, str | None] = field(default_factory=dict)
    delete_services: list[Service] = field(default_factory=list)
    create_services: list[Service] = field(default_factory=list)
    create_pods: list[Callable[[], Pod]] = field(default_factory=list)
    delete_job: bool = False

    @property
    def full(self) -> bool:
        """Whether as much is to be made as one look makes: the rest waits for the next look, which comes at once."""
        full = len(self.create_pods) >= SLICE or len(self.create_services) >= SLICE
        if full:
            self.again_within(0.0)
        return full


# Conditions of ``meta.k8s.io/v1``: one entry per type, in the order in which the types were first set.


def set_condition(
    conditions: Iterable[Condition] | None, type: str, status: str, reason: str, message: str, now: str
) -> list[Condition]:
    """The list with one condition set; the time of transition changes with the status only.

    Args:
        conditions: the list as it was; it is not changed.
        type: type of the condition.
        status: "True" or "False".
        reason: one word.
        message: one sentence.
        now: time in RFC 3339.

    """
    old = list(conditions or ())
    same = find_condition(old, type)
    since = same.last_transition_time if same is not None and same.status == status else now
    entry = Condition(type=type, status=status, reason=reason, message=message, last_transition_time=since)
    if same is None:
        return [*old, entry]
    return [entry if each is same else each for each in old]


# A key pair with which the pods of one job log in to each other.


def new_keys() -> dict[str, str]:
    """``ssh-privatekey`` and ``ssh-publickey`` of a new ECDSA key (P-521), as a Secret's data holds them."""
    key = ec.generate_private_key(ec.SECP521R1())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return {
        "ssh-privatekey": base64.b64encode(private).decode(),
        "ssh-publickey": base64.b64encode(public + b"\n").decode(),
    }
