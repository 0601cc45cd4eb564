"""What to do about one job of a hub and its copies: a pure function of what is known of both.

The hub's job says where it belongs (its placement) before anything is written to a member, so that each step can be
done again after a crash. Generations grow with each dispatch and each taking back; the highest one wins.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from unisono.fleet.jobs.copies import Copy, Placement

WORKER_LOST_TIMEOUT: Final = 900.0
"""Seconds that a member may be lost before its jobs go elsewhere."""


@dataclass(frozen=True, slots=True)
class MemberView:
    """What the hub knows of a member.

    Attributes:
        reachable: it answers, and all its copies are known.
        lost_seconds: how long it has not answered.
    """

    reachable: bool
    lost_seconds: float = 0.0


_GONE = MemberView(False, float("inf"))


@dataclass(frozen=True, slots=True)
class JobView:
    """What the hub wants of a job.

    Attributes:
        wanted: it exists and is not being deleted.
        ended: it has ended, and its status says how.
        placement: where it belongs.
        timeout: seconds that its member may be lost before another one gets it.
        pods_in: members where pods of an earlier dispatch have not ended, though their copy may be gone.
    """

    wanted: bool
    ended: bool
    placement: Placement
    timeout: float = WORKER_LOST_TIMEOUT
    pods_in: Collection[str] = ()


@dataclass(slots=True)
class Steps:
    """What to do.

    Attributes:
        place: write this placement down first; nothing else is done before it stands.
        create: the member gets the copy of this generation.
        mirror: this copy's status belongs to the job.
        delete: copies that must go.
        again: look again after so many seconds; None when only a change calls for it.
        lost: the job's member does not answer.
        forged: a copy in the job's member carries a number that the hub has not given.
        kept_by: members that still have an older copy, or pods of one, for which the job waits.
    """

    place: Placement | None = None
    create: str = ""
    mirror: Copy | None = None
    delete: list[Copy] = field(default_factory=list)
    again: float | None = None
    lost: bool = False
    forged: bool = False
    kept_by: tuple[str, ...] = ()


def decide(job: JobView, copies: Sequence[Copy], members: Mapping[str, MemberView], *, trusted: bool = True) -> Steps:
    """The next steps.

    Args:
        job: the hub's job.
        copies: all copies of it that members have, in whatever generation.
        members: the members by name; one that is absent has left.
        trusted: False where so many members are lost that the fault is probably the hub's: no job is taken away.
    """
    steps = Steps()
    if not job.wanted:
        steps.delete = [copy for copy in copies if _can_delete(copy, members)]
        return steps
    placement = job.placement
    # A number that only a member has written says nothing, and its copy goes like an old one.
    sealed = [copy for copy in copies if copy.sealed]
    newest = max(sealed, key=lambda copy: (copy.generation, copy.cluster, copy.uid), default=None)
    if newest is not None and newest.generation > placement.generation:
        # The hub has forgotten a dispatch: it was restored from an older backup.
        steps.place = Placement(newest.cluster, newest.generation)
        return steps
    current = [copy for copy in copies if (copy.cluster, copy.generation) == (placement.cluster, placement.generation)]
    others = [copy for copy in copies if copy not in current]
    steps.delete = [copy for copy in others if _can_delete(copy, members)]
    earlier = {copy.cluster for copy in others} | (set(job.pods_in) - {placement.cluster})
    member = members.get(placement.cluster, _GONE)
    if current and (member.reachable or not job.ended):
        # What a lost member said last must not revive a job that has failed because of the loss.
        steps.mirror = current[0]
    if not placement.cluster or job.ended:
        return steps
    if not member.reachable:
        _wait_for(steps, job, member, trusted=trusted)
    elif not current and (kept := {name for name in earlier if members.get(name, _GONE).reachable}):
        steps.kept_by = tuple(sorted(kept))
        steps.forged = any(_is_forged(copy, placement) for copy in others)
    elif not current:
        # What is left of an earlier dispatch must be gone first: nothing runs twice that the hub knows of.
        steps.create = placement.cluster
    return steps


def _wait_for(steps: Steps, job: JobView, member: MemberView, *, trusted: bool) -> None:
    steps.lost = True
    steps.mirror = None
    left = job.timeout - member.lost_seconds
    if left > 0 or not trusted:
        steps.again = max(left, 1.0)
    else:
        steps.place = job.placement.back()


def is_trusted(members: Mapping[str, MemberView]) -> bool:
    """Whether losses can be believed: not more than half of the members are lost at once; one of one never is."""
    lost = sum(not member.reachable for member in members.values())
    return lost * 2 <= len(members)


def may_take_work(cluster: str, copies: Mapping[str, Sequence[Copy]], jobs: Mapping[str, Placement]) -> bool:
    """Whether a member that has come back is clean: no copy there is older than its job's placement.

    Args:
        cluster: the member.
        copies: its copies, by uid of their jobs.
        jobs: placements of the hub's jobs by uid.
    """
    return not any(
        origin in jobs
        and copy.cluster == cluster
        and (
            copy.generation < jobs[origin].generation or (not copy.sealed and copy.generation > jobs[origin].generation)
        )
        for origin, found in copies.items()
        for copy in found
    )


def _is_forged(copy: Copy, placement: Placement) -> bool:
    return copy.cluster == placement.cluster and not copy.sealed and copy.generation > placement.generation


def _can_delete(copy: Copy, members: Mapping[str, MemberView]) -> bool:
    return not copy.deleting and members.get(copy.cluster, _GONE).reachable
