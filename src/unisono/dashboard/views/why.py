"""Why a job waits, what would help and what was said of it, as they go to the page."""

from __future__ import annotations

import msgspec


class Told(msgspec.Struct, rename="camel", kw_only=True):
    """Base of all parts of views."""


class Choice(Told):
    """A value to filter by, and how many rows have it."""

    value: str
    count: int


class Amount(Told):
    """One resource of a verdict, in quantities for people; ``short`` where less is there than is needed."""

    name: str
    need: str = ""
    have: str = ""
    short: bool = False


class HolderLine(Told):
    """Who holds what a job waits for; of a job also its user, and when it ends by what is stated (0: nothing is)."""

    kind: str
    name: str
    amounts: str = ""
    user: str = ""
    ends: float = 0.0


class Fact(Told):
    """A name and what is to be said under it."""

    name: str
    text: str


class VerdictView(Told):
    """Why one gang waits.

    Attributes:
        job: ``namespace/name`` of the job.
        cause, message, queue: as the scheduler wrote them.
        root: what the message says first, as a sentence.
        more: what else it says, and no other field does.
        position: place in the line of its queue, from 1; 0 where it stands in none.
        ahead: some of the jobs before it, the next one first.
        amounts: need against have.
        needed, placeable: pods of the gang, and how many of them would find a place.
        reasons: why nodes are ruled out, the most frequent first.
        nodes: how many were looked at.
        holders: the largest first.
        facts: what else is known.
    """

    job: str
    cause: str
    message: str
    queue: str = ""
    root: str = ""
    more: list[str] = []
    position: int = 0
    ahead: list[str] = []
    amounts: list[Amount] = []
    needed: int = 0
    placeable: int = 0
    reasons: list[Choice] = []
    nodes: int = 0
    holders: list[HolderLine] = []
    facts: list[Fact] = []


class OperationView(Told):
    """One request of a fix.

    Attributes:
        title: ``queue.scheduling.volcano.sh/research``.
        verb: ``patch``, ``create``, ``delete``, or ``replace``: delete and create again.
        body: the patch or the manifest, as YAML.
        kubectl: the same as a command.
        allowed: whether the viewer may do it.
    """

    title: str
    verb: str
    body: str = ""
    kubectl: str = ""
    allowed: bool = False


class FixView(Told):
    """One way out.

    Attributes:
        id: tells this fix from all others; changes with what it would do.
        text: for people.
        tried: the scheduler carried it out on a copy of the cluster, and the job started.
        why_not: why it cannot be carried out from here; empty where it can.
        allowed: the viewer may do all of it.
        operations: what it does.
    """

    id: str
    text: str
    tried: bool = False
    why_not: str = ""
    allowed: bool = False
    operations: list[OperationView] = []


class ExplanationView(Told):
    """Why a job waits, or what is to be known of one that does not.

    Attributes:
        known: whether it was asked for already.
        headline: one line.
        verdicts: of its gangs.
        notes: further lines.
        warnings: the same, to be looked at.
        fixes: ways out, the first one first.
        problem: why nothing can be said.
    """

    known: bool = False
    headline: str = ""
    verdicts: list[VerdictView] = []
    notes: list[str] = []
    warnings: list[str] = []
    fixes: list[FixView] = []
    problem: str = ""


class EventRow(Told):
    """An event of a job, or of something that belongs to it."""

    key: str
    time: float
    type: str
    reason: str
    message: str
    about: str
    count: int = 1
