"""Random lives of one job over members that come and go, with late news and a hub that dies."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.api.kinds import JOBS
from unisono.fleet.jobs.copies import Copy, Placement
from unisono.fleet.jobs.decide import JobView, MemberView, decide, is_trusted

NAMES = ("a", "b", "c")
TIMEOUT = 100.0


@dataclass
class Member:
    """A member as it is, and as the hub sees it."""

    up: bool = True
    copies: set[int] = field(default_factory=set)
    seen: set[int] = field(default_factory=set)
    ending: set[int] = field(default_factory=set)
    synced: bool = True
    lost: float = 0.0

    @property
    def current(self) -> bool:
        """Whether the hub knows what it has."""
        return self.up and self.synced and self.seen == self.copies


class Life:
    """The hub's record of the job is written before anything else, and survives the hub."""

    def __init__(self) -> None:
        self.members = {name: Member() for name in NAMES}
        self.placement, self.wanted = Placement(), True

    def views(self) -> dict[str, MemberView]:
        return {
            name: MemberView(member.up and member.synced, 0.0 if member.up else member.lost)
            for name, member in self.members.items()
        }

    def known(self) -> list[Copy]:
        return [
            Copy(name, JOBS, "default", "j", f"{name}/{generation}", "uid", generation, generation in member.ending)
            for name, member in self.members.items()
            for generation in sorted(member.seen)
        ]

    def act(self) -> None:
        """The hub looks at the job once."""
        views = self.views()
        trusted = is_trusted(views)
        steps = decide(JobView(self.wanted, False, self.placement, TIMEOUT), self.known(), views, trusted=trusted)
        if steps.place is not None:
            assert steps.place.generation > self.placement.generation
            assert trusted or steps.place.cluster
            self.placement = steps.place
            return
        for copy in steps.delete:
            assert (copy.cluster, copy.generation) != (
                self.placement.cluster,
                self.placement.generation,
            ) or not self.wanted
            self.members[copy.cluster].ending.add(copy.generation)
        if steps.create:
            assert self.wanted
            target = self.members[steps.create]
            others = [name for name, member in self.members.items() if member.current and member.copies]
            assert others in ([], [steps.create]), "another member that the hub sees has a copy"
            if target.up and not target.copies:  # a second object of the name is refused
                target.copies.add(self.placement.generation)

    def do(self, step: tuple[str, str]) -> None:
        what, name = step
        member = self.members[name]
        if what == "act":
            self.act()
        elif what == "news":
            for each in NAMES:
                self.do(("hear", each))
        elif what == "hear" and member.up:
            member.seen, member.synced, member.lost = set(member.copies), True, 0.0
        elif what == "end" and member.up:
            # What is deleted takes its time to go.
            member.copies -= member.ending
            member.ending.clear()
        elif what == "lose":
            member.up = False
        elif what == "return" and not member.up:
            member.up, member.synced = True, False
        elif what == "wait":
            for each in self.members.values():
                each.lost += 0.0 if each.up else 0.7 * TIMEOUT
        elif what == "place" and self.wanted and not self.placement.cluster and member.up and member.synced:
            self.placement = self.placement.to(name)
        elif what == "evict" and self.wanted and self.placement.cluster:
            self.placement = self.placement.back()
        elif what == "restart":
            for each in self.members.values():
                each.seen, each.synced, each.lost = set(), False, 0.0
        elif what == "delete":
            self.wanted = False

    def check(self) -> None:
        held = [g for member in self.members.values() for g in member.copies]
        assert len(held) == len(set(held)), "one dispatch has two copies"
        assert all(generation <= self.placement.generation for generation in held)

    def settle(self) -> None:
        """Everything is reachable, and all news arrive."""
        for name in NAMES:
            self.do(("return", name))
        for _ in range(8):
            for name in NAMES:
                self.do(("end", name))
                self.do(("hear", name))
            self.act()
            self.check()


OFTEN = ("act", "act", "act", "news", "news", "place", "place", "wait", "wait", "lose", "lose", "hear", "end", "evict")
STEPS = st.tuples(st.sampled_from((*OFTEN, *OFTEN, "return", "return", "restart", "delete")), st.sampled_from(NAMES))


@settings(max_examples=5 * settings.default.max_examples)
@given(st.lists(STEPS, min_size=10, max_size=80))
def test_a_job_is_in_one_cluster_and_is_not_lost(steps):
    life = Life()
    for step in steps:
        life.do(step)
        life.check()
    life.settle()
    held = {name: member.copies for name, member in life.members.items() if member.copies}
    if not life.wanted or not life.placement.cluster:
        assert held == {}
    else:
        assert held == {life.placement.cluster: {life.placement.generation}}
