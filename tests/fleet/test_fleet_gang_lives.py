"""Random lives of a gang over members that come and go, with late, lost and repeated news, and a hub that dies."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.api.kinds import JOBS
from unisono.fleet.hyper_jobs.decide import GangView, PartView, RestartPolicy, decide_gang
from unisono.fleet.hyper_jobs.work import GangRecord
from unisono.fleet.jobs.copies import Copy, Placement
from unisono.fleet.jobs.decide import JobView, MemberView, decide, is_trusted

MEMBERS = ("a", "b", "c")
PARTS = ("x", "y", "z")
LOST, RESERVE, START = 100.0, 50.0, 80.0
Key = tuple[str, int]


@dataclass(frozen=True)
class Real:
    """A copy as it is: whether it may have pods, whether they run, and whether it is going."""

    is_open: bool = False
    runs: bool = False
    ending: bool = False


@dataclass
class Member:
    """A member as it is, and as the hub sees it."""

    up: bool = True
    full: bool = False
    copies: dict[Key, Real] = field(default_factory=dict)
    seen: dict[Key, Real] = field(default_factory=dict)
    late: dict[Key, Real] = field(default_factory=dict)
    synced: bool = True
    lost: float = 0.0


class Life:
    """The record is written before anything else, and survives the hub."""

    def __init__(self, policy: RestartPolicy) -> None:
        self.members = {name: Member() for name in MEMBERS}
        self.record, self.policy, self.now = GangRecord(), policy, 0.0
        self.failed: set[str] = set()

    @property
    def live(self) -> list[str]:
        return [name for name in PARTS if name not in self.failed]

    def views(self) -> dict[str, MemberView]:
        return {
            name: MemberView(member.up and member.synced, 0.0 if member.up else member.lost)
            for name, member in self.members.items()
        }

    def known(self, part: str) -> list[Copy]:
        return [
            Copy(name, JOBS, "default", part, f"{name}/{part}/{generation}", part, generation, real.ending)
            for name, member in self.members.items()
            for (own, generation), real in sorted(member.seen.items())
            if own == part
        ]

    def act(self) -> None:
        """The hub looks at the gang, and then at each part."""
        views = self.views()
        trusted = is_trusted(views)
        steps = decide_gang(self.gang(), views, self.now, trusted=trusted)
        self.failed |= set(steps.fail)
        if steps.record is not None:
            assert steps.record.number >= self.record.number
            if steps.record.opened > self.record.opened:
                self.check_whole(steps.record)
            self.record = steps.record
        for part in PARTS:
            self.act_on(part, views)

    def gang(self) -> GangView:
        parts = {}
        for name in self.live:
            placement = self.record.placement(name, name)
            member = self.members.get(placement.cluster)
            real = member.seen.get((name, placement.generation)) if member else None
            parts[name] = PartView(name, placement, self.known(name), bool(real and real.runs))
        return GangView(self.record, parts, True, self.policy, LOST, RESERVE, START)

    def check_whole(self, record: GangRecord) -> None:
        """What is opened is reserved in every member, in truth and not only as far as the hub has heard."""
        for name in self.live:
            place = record.parts[name]
            assert (name, place.generation) in self.members[place.cluster].copies, "opened without a copy"

    def act_on(self, part: str, views: dict[str, MemberView]) -> None:
        placement = self.record.placement(part, part)
        steps = decide(JobView(True, part in self.failed, placement, float("inf")), self.known(part), views)
        if steps.place is not None:
            return
        for copy in steps.delete:
            member, key = self.members[copy.cluster], (part, copy.generation)
            assert (copy.cluster, copy.generation) != (placement.cluster, placement.generation)
            if key in member.copies:
                member.copies[key] = Real(member.copies[key].is_open, member.copies[key].runs, True)
        if steps.create:
            target = self.members[steps.create]
            for name, member in self.members.items():
                heard = member.up and member.synced and member.seen == member.copies
                assert name == steps.create or not heard or all(own != part for own, _ in member.copies), "runs twice"
            if target.up and all(own != part for own, _ in target.copies):
                target.copies[part, placement.generation] = Real(is_open=not self.record.is_held(part))
        if steps.mirror is not None and not self.record.is_held(part):
            member, key = self.members[placement.cluster], (part, placement.generation)
            if member.up and key in member.copies and not member.copies[key].is_open:
                member.copies[key] = Real(True, False, member.copies[key].ending)

    def do(self, step: tuple[str, str]) -> None:
        what, name = step
        member = self.members[name]
        if what == "act":
            self.act()
        elif what == "news":
            for each in MEMBERS:
                self.do(("hear", each))
        elif what == "hear" and member.up:
            member.seen = dict(member.copies)
            member.synced, member.lost = True, 0.0
        elif what == "tell":
            member.late = dict(member.copies)  # an event that comes later, or never
        elif what == "late" and member.up and member.synced:
            # News of copies that are still there; what is gone was told as gone, once and in order.
            member.seen = {key: real for key, real in {**member.seen, **member.late}.items() if key in member.copies}
        elif what == "end" and member.up:
            member.copies = {key: real for key, real in member.copies.items() if not real.ending}
        elif what == "run" and not member.full:
            member.copies = {key: Real(real.is_open, real.is_open, real.ending) for key, real in member.copies.items()}
        elif what == "fill":
            member.full = not member.full
        elif what == "lose":
            member.up = False
        elif what == "return" and not member.up:
            member.up, member.synced = True, False
        elif what == "wait":
            self.now += 0.7 * RESERVE
            for each in self.members.values():
                each.lost += 0.0 if each.up else 0.7 * LOST
        elif what == "place":
            self.place(name)
        elif what == "evict":
            self.record = self.record.without(self.live, self.now)
        elif what == "restart":
            for each in self.members.values():
                each.seen, each.synced, each.lost = {}, False, 0.0

    def place(self, first: str) -> None:
        """The engine finds members for all parts that wait, or for none."""
        usable = [name for name, member in self.members.items() if member.up and member.synced and not member.full]
        waiting = [name for name in self.live if not self.record.placement(name, name).cluster]
        if usable and waiting:
            at = MEMBERS.index(first)
            places = {name: (usable[(at + number) % len(usable)], name) for number, name in enumerate(waiting)}
            self.record = self.record.sent(places, self.now)

    def check(self) -> None:
        copies = [key for member in self.members.values() for key in member.copies]
        assert len(copies) == len(set(copies)), "one dispatch has two copies"
        for member in self.members.values():
            for (_, generation), real in member.copies.items():
                assert generation <= self.record.number
                assert not real.is_open or generation <= self.record.opened, "pods before the gang was opened"
                assert not real.runs or real.is_open

    def settle(self, rounds: int = 12) -> None:
        """Everything is reachable, and all news arrive; no time passes."""
        for name in MEMBERS:
            self.do(("return", name))
        for _ in range(rounds):
            for name in MEMBERS:
                self.do(("end", name))
                self.do(("run", name))
                self.do(("hear", name))
            self.act()
            self.check()

    def held(self) -> dict[str, list[str]]:
        """Parts to the members that have copies of them."""
        return {
            part: [name for name, member in self.members.items() for own, _ in member.copies if own == part]
            for part in PARTS
        }


OFTEN = ("act", "act", "act", "news", "news", "place", "place", "wait", "lose", "hear", "end", "run", "tell", "late")
SELDOM = ("return", "return", "restart", "evict", "fill", "wait")
STEPS = st.tuples(st.sampled_from((*OFTEN, *OFTEN, *SELDOM)), st.sampled_from(MEMBERS))


@settings(max_examples=5 * settings.default.max_examples)
@given(st.lists(STEPS, min_size=10, max_size=80), st.sampled_from(RestartPolicy))
def test_a_gang_is_whole_or_waits_and_is_not_lost(steps, policy):
    life = Life(policy)
    for step in steps:
        life.do(step)
        life.check()
    life.settle()
    assert all(len(where) <= 1 for where in life.held().values())
    # A gang of which a part cannot start is released when its time is over, at once in all members.
    life.now += max(RESERVE, START) + 1.0
    life.settle()
    running = {
        part
        for member in life.members.values()
        for (part, _), real in member.copies.items()
        if real.runs and not real.ending
    }
    if policy is RestartPolicy.GANG:
        assert running in (set(), set(life.live)), "a gang runs in part beyond its bound"
    # Nothing is lost: with room everywhere it runs whole, each part once.
    for member in life.members.values():
        member.full = False
    life.place("a")
    life.settle()
    held = life.held()
    assert all(len(held[part]) == 1 for part in life.live)
    assert all(not held[part] for part in life.failed)
    assert life.record.started == life.record.opened or not life.live


@settings(max_examples=2 * settings.default.max_examples)
@given(st.lists(STEPS, max_size=40), st.sampled_from(MEMBERS))
def test_a_member_that_never_accepts_keeps_all_parts_without_pods(steps, deaf):
    life = Life(RestartPolicy.GANG)
    life.members[deaf].up = False
    life.record = life.record.sent({name: (deaf if name == "z" else "a", name) for name in PARTS}, 0.0)
    for what, name in steps:
        if what not in ("evict", "place", "restart") and not (what == "return" and name == deaf):
            life.do((what, name))
        life.check()
        assert not any(real.is_open for member in life.members.values() for real in member.copies.values())
    life.now += RESERVE + 1.0
    life.act()
    assert life.record.opened == 0
    assert {life.record.placement(name, name) for name in PARTS} == {Placement("", life.record.number)}
