"""Array forms against scalar ones, and rules that hold for any cluster."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from plugins_world import World, a_pod, class_of, queue_of

from support.examples import examples
from unisono import engine
from unisono.engine.config_file.reader import DEFAULT_TEXT, load_config

KEYS, VALUES = ["a", "b"], ["1", "2", "30", "x", "-4"]
LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
OPERATORS = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
EXPRESSIONS = st.fixed_dictionaries(
    {"key": st.sampled_from(KEYS), "operator": OPERATORS, "values": st.lists(st.sampled_from(VALUES), max_size=2)}
)
TERMS = st.lists(st.fixed_dictionaries({"matchExpressions": st.lists(EXPRESSIONS, max_size=2)}), max_size=2)


def number(text: str | None) -> int | None:
    try:
        return int(text or "")
    except ValueError:
        return None


def holds(expression: dict[str, Any], labels: dict[str, str]) -> bool:
    """One node, one expression, word by word."""
    value, values, operator = labels.get(expression["key"]), expression["values"], expression["operator"]
    if operator in ("Gt", "Lt"):
        mine, bound = number(value), number(values[0]) if len(values) == 1 else None
        return mine is not None and bound is not None and (mine > bound if operator == "Gt" else mine < bound)
    return {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }[operator]


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(LABELS, min_size=1, max_size=5), LABELS, TERMS)
def test_selectors_agree_with_the_scalar_form(nodes: list[Any], selector: dict[str, str], terms: list[Any]) -> None:
    world = World().queue("q")
    for index, labels in enumerate(nodes):
        world.node(f"n{index}", labels)
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    session, plugin = world.job("j", a_pod(nodeSelector=selector, affinity=affinity)).open("predicates")
    veto = plugin.static_filter(class_of(session, "j-0"), session.nodes)[2]
    for refused, labels in zip(veto.nodes.tolist(), nodes, strict=True):
        matches = any(
            term["matchExpressions"] and all(holds(e, labels) for e in term["matchExpressions"]) for term in terms
        )
        assert refused is not (matches and selector.items() <= labels.items())


EFFECTS = ["NoSchedule", "NoExecute", "PreferNoSchedule"]
TAINTS = st.lists(
    st.fixed_dictionaries(
        {"key": st.sampled_from(KEYS), "value": st.sampled_from(["1", "2"]), "effect": st.sampled_from(EFFECTS)}
    ),
    max_size=2,
)
TOLERATIONS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "key": st.sampled_from(KEYS),
            "operator": st.sampled_from(["Equal", "Exists"]),
            "value": st.sampled_from(["1", "2"]),
            "effect": st.sampled_from(EFFECTS),
        },
    ),
    max_size=2,
)


def covers(toleration: dict[str, str], taint: dict[str, str]) -> bool:
    same = all(toleration.get(part) in (None, taint[part]) for part in ("key", "effect"))
    return same and (toleration.get("operator") == "Exists" or toleration.get("value", "") == taint["value"])


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(TAINTS, min_size=1, max_size=4), TOLERATIONS)
def test_taints_agree_with_the_scalar_form(nodes: list[Any], tolerations: list[Any]) -> None:
    world = World().queue("q")
    for index, taints in enumerate(nodes):
        world.node(f"n{index}", taints=taints)
    session, plugin = world.job("j", a_pod(tolerations=tolerations)).open("predicates")
    veto = plugin.static_filter(class_of(session, "j-0"), session.nodes)[-1]
    for refused, taints in zip(veto.nodes.tolist(), nodes, strict=True):
        hard = [taint for taint in taints if taint["effect"] != "PreferNoSchedule"]
        assert refused is any(not any(covers(t, taint) for t in tolerations) for taint in hard)


SHARES_HOLD = load_config(DEFAULT_TEXT.replace("proportion.firstGang: true", "proportion.firstGang: false"))
QUEUES = st.lists(
    st.fixed_dictionaries(
        {
            "weight": st.integers(1, 4),
            "jobs": st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), max_size=3),
            "cap": st.none() | st.integers(1, 20),
        }
    ),
    min_size=1,
    max_size=4,
)


def shared(queues: list[Any], cpu: int) -> World:
    world = World().node("n1", has={"cpu": str(cpu)}).node("n2", has={"cpu": str(cpu)})
    for index, queue in enumerate(queues):
        limit = {"capability": {"cpu": str(queue["cap"])}} if queue["cap"] else {}
        world.queue(f"q{index}", weight=queue["weight"], **limit)
        for number_, (pods, size) in enumerate(queue["jobs"]):
            world.job(f"j{index}-{number_}", *[a_pod(str(size), "1Mi")] * pods, queue=f"q{index}", minMember=1)
    return world


@settings(max_examples=examples(60), deadline=None)
@given(QUEUES, st.integers(1, 16))
def test_no_queue_ends_a_cycle_above_its_share(queues: list[Any], cpu: int) -> None:
    world = shared(queues, cpu)
    decisions = engine.run(world.state.snapshot(), SHARES_HOLD, now=0.0, advice=False)
    assert decisions.violations == []
    for bind in decisions.binds:
        world.state.assume(f"{bind.namespace}/{bind.pod}", bind.node)
    session, _ = world.open()
    for told in decisions.figures:
        if told.shares is not None:
            assert queue_of(session, told.name).allocated[0] <= told.shares.deserved[0]


@settings(max_examples=examples(60), deadline=None)
@given(QUEUES, st.integers(1, 16))
def test_headroom_is_how_often_allocatable_says_yes(queues: list[Any], cpu: int) -> None:
    session, plugin = shared(queues, cpu).open("proportion")
    for job in session.jobs:
        for task in list(job.record.pending.values())[:1]:
            queue = job.queue
            before = queue.claimed.copy()
            room = plugin.headroom(queue, task.pod_class)
            for _ in range(room):
                assert plugin.allocatable(queue, task.pod_class) is None
                queue.claimed += task.pod_class.vector
            assert plugin.allocatable(queue, task.pod_class) is not None
            queue.claimed[:] = before
