"""fair-share and user-limits: users and namespaces take turns by decayed use, and no user goes beyond a limit."""

from __future__ import annotations

from math import log
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.build import START, bound_per_job, cluster, config, gang, group, nodes, pod, queue, schedule
from support.examples import examples
from unisono.api.annotations import SHARE_WEIGHTS, USE, USER, USER_LIMITS
from unisono.api.queues import limits_of
from unisono.api.times import rfc3339
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.config_file.reader import load_config
from unisono.engine.plugins.fair_share import UsageBook, read, written
from unisono.errors import ConfigError

HOUR = 3600.0


def fair(**arguments: Any) -> SchedulerConfig:
    given_arguments = {"fair-share": {f"fair-share.{key}": value for key, value in arguments.items()}}
    return config(("priority", "fair-share", "gang"), ("predicates", "nodeorder"), arguments=given_arguments)


LIMITED = config(("priority", "gang", "user-limits"), ("predicates", "nodeorder"))


def jobs_of(
    user: str, number: int, *, created: float = 0.0, namespace: str = "team", size: int = 1, **more: Any
) -> Any:
    """Jobs of one user in a namespace that is shared, one second apart."""
    made = []
    for at in range(number):
        things = gang(f"{user}-{at}", size, namespace=namespace, created=created + at, queue="q", **more)
        things[0].metadata.annotations = {USER: user} if user else None
        made.append(things)
    return made


def served(
    things: list[Any], setting: SchedulerConfig, *, q: Any = None, now: float = START + 1000.0
) -> dict[str, int]:
    """Bound pods by user."""
    counts: dict[str, int] = {}
    state = cluster([q or queue("q"), *things])
    for job, number in bound_per_job(schedule(state, setting, now=now)).items():
        user = job.rpartition("-")[0]
        counts[user] = counts.get(user, 0) + number
    return counts


FLOOD = [nodes(1, cpu=6), jobs_of("alice", 9), jobs_of("bob", 9, created=50)]


@pytest.mark.parametrize(
    ("setting", "q", "expected"),
    [
        (config(("priority", "gang"), ("predicates",)), None, {"alice": 6}),
        (fair(), None, {"alice": 3, "bob": 3}),
        (fair(halfLife="0s"), None, {"alice": 3, "bob": 3}),
        (fair(weights={"alice": 2}), None, {"alice": 4, "bob": 2}),
        (fair(weights={"bob": 5}), queue("q", annotations={SHARE_WEIGHTS: "alice=2, bob=1"}), {"alice": 4, "bob": 2}),
        (fair(by="namespace"), None, {"alice": 6}),
    ],
    ids=["without", "equal", "no-history", "weight", "queue-says", "by-namespace"],
)
def test_users_of_one_namespace_take_turns(setting: SchedulerConfig, q: Any, expected: dict[str, int]) -> None:
    assert served(FLOOD, setting, q=q) == expected


def test_namespaces_take_turns_by_weight() -> None:
    things = [nodes(1, cpu=8), jobs_of("a", 9, namespace="one"), jobs_of("b", 9, created=50, namespace="two")]
    assert served(things, fair(by="namespace", weights={"two": 3})) == {"a": 2, "b": 6}


def test_jobs_of_nobody_count_for_their_namespace() -> None:
    anonymous = [gang(f"x-{at}", 1, namespace="team", created=at, queue="q") for at in range(9)]
    things = [nodes(1, cpu=4), anonymous, jobs_of("bob", 9, created=50)]
    assert served(things, fair()) == {"x": 2, "bob": 2}


def test_past_use_counts_and_fades() -> None:
    """Alice had the cluster alone for a day; when both wait, Bob comes first, and later less so."""
    running = [group("old", 1, namespace="team", phase="Running", queue="q", annotations={USER: "alice"})]
    running.append(pod("old", "old", namespace="team", node="n000", cpu=6))
    state = cluster([queue("q"), nodes(1, cpu=6), running])
    setting = fair(halfLife="24h")
    schedule(state, setting, now=START)
    now = START + 24 * HOUR
    schedule(state, setting, now=now)
    state.apply("DELETED", *_ref(running[1]))
    state.apply("DELETED", *_ref(running[0]))
    schedule(state, setting, now=now)
    for thing in _flat([jobs_of("alice", 9), jobs_of("bob", 9, created=50)]):
        state.apply("ADDED", *_ref(thing))

    def bound(at: float) -> dict[str, int]:
        counts = {"alice": 0, "bob": 0}
        for job in bound_per_job(schedule(state, setting, now=at)):
            counts[job.rpartition("-")[0]] += 1
        return counts

    assert bound(now) == {"alice": 2, "bob": 4}, "half a cluster of average use is three pods, which Bob gets first"
    assert bound(now + 10 * 24 * HOUR) == {"alice": 3, "bob": 3}


def _flat(things: list[Any]) -> list[Any]:
    return [one for gang_ in things for job in gang_ for one in job]


def _ref(thing: Any) -> tuple[Any, Any]:
    from unisono.api.kinds import POD_GROUPS, PODS

    return (PODS if type(thing).__name__ == "Pod" else POD_GROUPS), thing


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("fair-share.by: group", "must be user or namespace"),
        ("fair-share.weights: {a: 0}", "a in fair-share.weights of plug-in fair-share must be a number above 0, not 0"),
        ("fair-share.halfLife: long", "must be a duration"),
    ],
)
def test_mistakes_in_the_configuration(text: str, told: str) -> None:
    head = "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: fair-share\n    arguments: "
    with pytest.raises(ConfigError, match=told):
        from unisono.engine.plugins.registry import find

        loaded = load_config(f"{head}{{{text}}}\n")
        plugin = find("fair-share")
        assert plugin is not None
        plugin(loaded.plugins[1])


# ---- the book


def test_an_account_that_always_holds_a_share_has_it_on_average() -> None:
    book = UsageBook()
    for at in range(200):
        book.look({("q", "a"): 0.25}, at * HOUR, 10 * HOUR)
    assert book.averages(10 * HOUR)["q", "a"] == pytest.approx(0.25, rel=1e-5)


def test_half_is_left_after_a_half_life_and_nothing_in_the_end() -> None:
    book = UsageBook()
    book.look({("q", "a"): 1.0}, 0.0, HOUR)
    book.look({}, HOUR, HOUR)
    first = book.averages(HOUR)["q", "a"]
    assert first == pytest.approx(0.5)
    book.look({}, 2 * HOUR, HOUR)
    assert book.averages(HOUR)["q", "a"] == pytest.approx(first / 2)
    book.look({}, 1000 * HOUR, HOUR)
    assert book.averages(HOUR) == {}


def test_what_was_kept_goes_on_after_a_restart() -> None:
    before, after = UsageBook(), UsageBook()
    before.look({("q", "a"): 1.0}, 0.0, HOUR)
    before.look({}, HOUR, HOUR)
    after.restore(read("q", written(before.kept(HOUR)["q"])))
    for book in (before, after):
        book.look({}, 3 * HOUR, HOUR)
    assert after.averages(HOUR)["q", "a"] == pytest.approx(before.averages(HOUR)["q", "a"])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"at":"never","use":{"a":1}}',
        '{"at":"2026-01-01T00:00:00Z","use":{"a":"x"}}',
        '{"at":"2026-01-01T00:00:00Z","use":{"a":-1}}',
        '{"at":"2026-01-01T00:00:00Z","use":{"a":1e999}}',
    ],
)
def test_what_cannot_be_read_counts_as_nothing(text: str) -> None:
    assert read("q", text) == []


def test_what_is_kept_is_bounded() -> None:
    book = UsageBook()
    book.look({("q", f"user{at}"): (at + 1) / 1e4 for at in range(2000)}, 0.0, HOUR)
    book.look({}, HOUR, HOUR)
    kept = book.kept(HOUR)["q"]
    assert len(kept) == 500 and min(kept, key=lambda name: kept[name].seconds) == "user1500"
    assert len(written(kept)) < 32_768


def test_a_new_scheduler_goes_on_from_what_the_last_one_kept() -> None:
    """Alice had the cluster alone for a day; a scheduler that starts then serves Bob first."""
    use = '{"at":"' + rfc3339(START) + '","use":{"alice":' + str(24 * HOUR / log(2.0) / 2.0) + "}}"
    q = queue("q")
    q.metadata.annotations = {USE: use}
    things = [nodes(1, cpu=6), jobs_of("alice", 9), jobs_of("bob", 9, created=50)]
    assert served(things, fair(halfLife="24h"), q=q, now=START) == {"alice": 2, "bob": 4}
    assert served(things, fair(halfLife="24h"), q=q, now=START + 240 * HOUR) == {"alice": 3, "bob": 3}


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.0, 1e5), st.sampled_from("ab"), st.floats(0.0, 1.0)), max_size=30),
    st.floats(60.0, 1e6),
)
def test_averages_stay_between_nothing_and_the_most_that_was_held(
    steps: list[tuple[float, str, float]], half_life: float
) -> None:
    """Whatever the times of the looks are, also where a clock goes back."""
    book, now, most = UsageBook(), 0.0, 0.0
    for pause, account, share in steps:
        now += pause - 10.0
        most = max(most, share)
        book.look({("q", account): share}, now, half_life)
        assert all(0.0 <= average <= most + 1e-9 for average in book.averages(half_life).values())
    rate = half_life / log(2.0)
    assert all(use.seconds <= most * rate + 1e-6 for use in book.kept(now).get("q", {}).values())


# ---- limits


@pytest.mark.parametrize(
    ("limits", "size", "expected"),
    [
        ("pods=2", 1, {"alice": 2, "bob": 2}),
        ("cpu=3", 1, {"alice": 3, "bob": 3}),
        ("pods=3", 2, {"alice": 2, "bob": 2}),
        ("pods=9", 1, {"alice": 6}),
        ("nvidia.com/gpu=1", 1, {"alice": 6}),
    ],
)
def test_no_user_holds_more_than_the_queue_allows(limits: str, size: int, expected: dict[str, int]) -> None:
    things = [nodes(1, cpu=6), jobs_of("alice", 9, size=size), jobs_of("bob", 9, created=50, size=size)]
    assert served(things, LIMITED, q=queue("q", annotations={USER_LIMITS: limits})) == expected


def robot(number: int, namespace: str = "team") -> str:
    return f"system:serviceaccount:{namespace}:robot-{number}"


def test_the_service_accounts_of_a_namespace_are_one_tenant() -> None:
    """Who may write in a namespace makes as many of them as they like."""
    robots = [jobs_of(robot(number), 2, created=10.0 * number) for number in range(6)]
    others = jobs_of(robot(0, "else"), 9, created=90.0)
    things = [nodes(1, cpu=12), *robots, others]
    counts = served(things, LIMITED, q=queue("q", annotations={USER_LIMITS: "pods=2"}))
    assert sum(number for user, number in counts.items() if ":team:" in user) == 2
    assert sum(number for user, number in counts.items() if ":else:" in user) == 2
    counts = served(things, fair())
    assert sum(number for user, number in counts.items() if ":team:" in user) == 6


def test_a_limit_of_service_accounts_says_whose_it_is() -> None:
    waiting = {"phase": "Pending", "min_resources": True}
    things = [nodes(1, cpu=9), jobs_of(robot(0), 1, **waiting), jobs_of(robot(1), 1, created=9, **waiting)]
    decisions = schedule(cluster([queue("q", annotations={USER_LIMITS: "jobs=1"}), *things]), LIMITED)
    message = decisions.verdicts[f"team/{robot(1)}-0"].message
    assert "the service accounts of namespace team may have 1 job in queue q and has 1" in message


def test_the_number_of_jobs_is_limited_at_admission() -> None:
    waiting = {"phase": "Pending", "min_resources": True}
    things = [nodes(1, cpu=9), jobs_of("alice", 5, **waiting), jobs_of("bob", 5, created=50, **waiting)]
    state = cluster([queue("q", annotations={USER_LIMITS: "jobs=2"}), *things])
    decisions = schedule(state, LIMITED)
    assert set(bound_per_job(decisions)) == {"alice-0", "alice-1", "bob-0", "bob-1"}
    message = decisions.verdicts["team/alice-2"].message
    assert "user alice may have 2 jobs in queue q and has 2" in message


def test_gpus_that_run_count() -> None:
    running = [group("old", 1, namespace="team", phase="Running", queue="q", annotations={USER: "alice"})]
    running.append(pod("old", "old", namespace="team", node="n000", cpu=1, gpu=3))
    things = [nodes(1, cpu=9, gpu=8), running, jobs_of("alice", 3, gpu=1), jobs_of("bob", 1, created=50, gpu=1)]
    assert served(things, LIMITED, q=queue("q", annotations={USER_LIMITS: "nvidia.com/gpu=4"})) == {
        "alice": 1,
        "bob": 1,
    }


@pytest.mark.parametrize(("setting", "jobs"), [("jobs=1", {"alice-0"}), ("cpu=2", {"alice-0", "alice-1"})])
def test_no_plug_in_of_an_earlier_tier_admits_beyond_a_limit(setting: str, jobs: set[str]) -> None:
    waiting = {"phase": "Pending", "min_resources": True}
    state = cluster([queue("q", annotations={USER_LIMITS: setting}), nodes(1, cpu=9), *jobs_of("alice", 3, **waiting)])
    permits_first = config(("priority", "gang", "proportion", "overcommit"), ("predicates", "user-limits"))
    decisions = schedule(state, permits_first)
    assert {update.name for update in decisions.pod_groups if update.phase != "Pending"} == jobs
    assert "user alice may have" in decisions.verdicts["team/alice-2"].message


@pytest.mark.parametrize(("terminating", "number"), [(False, 3), (True, 1)])
def test_pods_that_terminate_count_until_they_are_gone(terminating: bool, number: int) -> None:
    """What starts now does not fit beside them, nor beside pods that are lost with their node."""
    running = [group("old", 1, namespace="team", phase="Running", queue="q", annotations={USER: "alice"})]
    if terminating:
        running += [
            pod("old-0", "old", namespace="team", node="n000", cpu=1, deleting=True),
            pod("old-1", "old", namespace="team", node="n000", cpu=1, phase="Unknown"),
        ]
    things = [nodes(1, cpu=9), running, jobs_of("alice", 3), jobs_of("bob", 1, created=50)]
    found = served(things, LIMITED, q=queue("q", annotations={USER_LIMITS: "cpu=3"}))
    assert found == {"alice": number, "bob": 1}


@pytest.mark.parametrize("limited", ["the user", "the queue"])
def test_a_pod_that_requests_nothing_does_not_start_beside_one_that_terminates(limited: str) -> None:
    running = group("old", 1, namespace="team", phase="Running", queue="q", annotations={USER: "alice"})
    leaving = pod("old-0", "old", namespace="team", node="n000", deleting=True)
    q = queue("q", annotations={USER_LIMITS: "pods=1"}) if limited == "the user" else queue("q", capability={"pods": 1})
    assert served([nodes(1, cpu=9), running, leaving, jobs_of("alice", 1, cpu=0)], LIMITED, q=q) == {}


def test_limits_that_cannot_be_read_stop_their_queue_alone() -> None:
    pending = {"phase": "Pending", "min_resources": True}
    other = gang("other", 1, queue="free", min_resources=True, phase="Pending")
    state = cluster(
        [
            queue("q", annotations={USER_LIMITS: "pods"}),
            queue("free"),
            nodes(1, cpu=6),
            jobs_of("a", 1, **pending),
            other,
        ]
    )
    decisions = schedule(state, LIMITED)
    assert set(bound_per_job(decisions)) == {"other"}
    assert "is no NAME=QUANTITY" in decisions.verdicts["team/a-0"].message


@pytest.mark.parametrize("text", ["pods", "=3", "jobs=x", "jobs=-1", "cpu=much"])
def test_limits_are_read_strictly(text: str) -> None:
    with pytest.raises(ValueError):
        limits_of(text)


@settings(max_examples=examples(30), deadline=None)
@given(
    wanted=st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(1, 3)), min_size=1, max_size=12),
    limit=st.integers(1, 5),
    cpus=st.integers(1, 12),
)
def test_limits_hold_for_any_mixture(wanted: list[tuple[str, int]], limit: int, cpus: int) -> None:
    things: list[Any] = [nodes(1, cpu=cpus)]
    for at, (user, size) in enumerate(wanted):
        job = gang(f"{user}-{at}", size, namespace="team", created=at, queue="q")
        job[0].metadata.annotations = {USER: user}
        things.append(job)
    setting = config(("priority", "fair-share", "gang", "user-limits"), ("predicates", "nodeorder"))
    found = served(things, setting, q=queue("q", annotations={USER_LIMITS: f"pods={limit}"}))
    assert all(number <= limit for number in found.values())
    fitting = any(size <= min(limit, cpus) for _, size in wanted)
    assert bool(found) == fitting
