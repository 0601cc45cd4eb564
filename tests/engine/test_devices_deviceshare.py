"""deviceshare in whole cycles: cards one by one, annotations with the bind, books from cycle to cycle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import build
from support.examples import examples
from unisono.api import kinds
from unisono.api.annotations import CARDS
from unisono.api.core import Container, Node, Pod, ResourceRequirements
from unisono.cluster.state import ClusterState
from unisono.engine.config.model import PluginConfig, SchedulerConfig
from unisono.engine.config_file.reader import default_config
from unisono.engine.decisions import Decisions
from unisono.engine.plugins.registry import create
from unisono.engine.verdict import Cause
from unisono.errors import ConfigError

MEM, COUNT = "aliyun.com/gpu-mem", "aliyun.com/gpu-count"
VGPU = "volcano.sh/vgpu-"
REGISTER = "volcano.sh/node-vgpu-register"


def config(actions: str = "allocate", **arguments: Any) -> SchedulerConfig:
    given = {f"deviceshare.{key}": value for key, value in arguments.items()}
    return build.config(
        ("priority", "gang"), ("predicates", "deviceshare"), actions=actions, arguments={"deviceshare": given}
    )


def shared(name: str, cards: int = 2, each: int = 16, **parts: Any) -> Node:
    """A node with ``cards`` cards of ``each`` GiB, in Alibaba's words."""
    return build.node(name, **{MEM: cards * each, COUNT: cards}, **parts)


def vnode(name: str, *cards: str, number: int = 20, memory: int = 80000, cores: int = 200) -> Node:
    """A node whose cards are records of HAMi's annotation."""
    made = build.node(name, **{f"{VGPU}number": number, f"{VGPU}memory": memory, f"{VGPU}cores": cores})
    made.metadata.annotations = {REGISTER: ":".join(cards)}
    return made


def vcard(uuid: str, *, shares: int = 10, memory: int = 16000, model: str = "Tesla T4", mode: str = "hami-core") -> str:
    return f"{uuid},{shares},{memory},{model},true,{mode}"


def limited(pod: Pod, *containers: Mapping[str, int]) -> Pod:
    """The pod with containers that have these limits."""
    pod.spec.containers = [
        Container(name=f"c{i}", resources=ResourceRequirements(limits={k: str(v) for k, v in limits.items()}))
        for i, limits in enumerate(containers)
    ]
    return pod


def single(name: str, *containers: Mapping[str, int], **parts: Any) -> list[Any]:
    return [build.group(name, 1), limited(build.pod(f"{name}-0", name, **parts), *containers)]


def run(state: ClusterState, settings: SchedulerConfig) -> Decisions:
    decisions = build.schedule(state, settings)
    assert decisions.violations == []
    return decisions


def confirm(state: ClusterState, decisions: Decisions) -> None:
    for bind in decisions.binds:
        state.assume(f"{bind.namespace}/{bind.pod}", bind.node, bind.annotations)


# ---- Alibaba's memory sharing


def test_a_pod_goes_to_one_card_and_is_told_which() -> None:
    state = build.cluster(shared("n1"), single("a", {MEM: 10}))
    (bind,) = run(state, config()).binds
    assert bind.annotations["ALIYUN_COM_GPU_MEM_IDX"] == "0"
    assert bind.annotations["ALIYUN_COM_GPU_MEM_POD"] == "10"
    assert bind.annotations["ALIYUN_COM_GPU_MEM_DEV"] == "16"
    assert bind.annotations["ALIYUN_COM_GPU_MEM_ASSIGNED"] == "false"


def test_memory_on_several_cards_is_not_memory_on_one() -> None:
    state = build.cluster(shared("n1"), *(single(name, {MEM: 10}) for name in "abc"))
    decisions = run(state, config())
    assert [bind.annotations["ALIYUN_COM_GPU_MEM_IDX"] for bind in decisions.binds] == ["0", "1"]
    verdict = decisions.verdicts["ns/c"]
    assert verdict.cause is Cause.NODES_FULL
    assert verdict.reasons == {"node(s) had no GPU with enough free memory or cores": 1}


def test_what_no_card_could_hold_is_said() -> None:
    state = build.cluster(shared("n1"), build.node("n2"), single("a", {MEM: 17}))
    reasons = run(state, config()).verdicts["ns/a"].reasons
    assert reasons == {
        "node(s) had no GPU that suits the pod, even if idle": 1,
        f"Insufficient {MEM}": 1,
    }


def test_the_fullest_card_that_fits_is_taken() -> None:
    state = build.cluster(shared("n1", 3))
    for name, card, memory in (("x", 0, 4), ("y", 1, 9), ("z", 2, 12)):
        notes = {"ALIYUN_COM_GPU_MEM_IDX": str(card)}
        state.apply("ADDED", kinds.PODS, limited(build.pod(name, node="n1", annotations=notes), {MEM: memory}))
    for thing in build.flatten(single("a", {MEM: 6})):
        state.apply("ADDED", build.kind_of(thing), thing)
    (bind,) = run(state, config()).binds
    assert bind.annotations["ALIYUN_COM_GPU_MEM_IDX"] == "1"


def test_a_decided_bind_holds_its_card_before_the_watch_shows_it() -> None:
    state = build.cluster(shared("n1"), single("a", {MEM: 10}), single("b", {MEM: 10}))
    first = run(state, config())
    confirm(state, first)
    for thing in build.flatten(single("c", {MEM: 6})):
        state.apply("ADDED", build.kind_of(thing), thing)
    second = run(state, config())
    assert [bind.pod for bind in second.binds] == ["c-0"]
    for bind in first.binds:
        state.forget(f"{bind.namespace}/{bind.pod}")
    assert all("ALIYUN_COM_GPU_MEM_IDX" not in task.annotations for task in state.tasks.values())
    assert len(run(state, config()).binds) == 3


def test_pods_bound_without_a_card_are_counted_where_they_fit() -> None:
    state = build.cluster(shared("n1"), limited(build.pod("x", node="n1"), {MEM: 12}), single("a", {MEM: 10}))
    (bind,) = run(state, config()).binds
    assert bind.annotations["ALIYUN_COM_GPU_MEM_IDX"] == "1"


def test_half_a_gang_takes_no_cards() -> None:
    gang = [build.group("g", 3), *(limited(build.pod(f"g-{i}", "g"), {MEM: 10}) for i in range(3))]
    state = build.cluster(shared("n1"), gang, single("later", {MEM: 10}, created=5))
    decisions = run(state, config())
    assert [bind.pod for bind in decisions.binds] == ["later-0"]
    assert decisions.verdicts["ns/g"].tasks_placeable == 2


def test_cores_of_a_card_are_counted() -> None:
    core = "aliyun.com/gpu-core.percentage"
    state = build.cluster(
        shared("n1", 1, **{core: 100}), *(single(name, {MEM: 2, core: 40}) for name in "abc"), single("d", {MEM: 2})
    )
    assert [bind.pod for bind in run(state, config()).binds] == ["a-0", "b-0", "d-0"]


def test_families_can_be_switched_off() -> None:
    state = build.cluster(shared("n1"), *(single(name, {MEM: 10}) for name in "abc"))
    binds = run(state, config(AliyunGPUShareEnable=False)).binds
    assert len(binds) == 3
    assert all(not bind.annotations for bind in binds)


# ---- other vendors


def test_qgpu_takes_shares_and_whole_cards_per_container() -> None:
    core, memory = "tke.cloud.tencent.com/qgpu-core", "tke.cloud.tencent.com/qgpu-memory"
    node = build.node("n1", **{core: 400, memory: 64})
    state = build.cluster(
        node,
        single("a", {core: 30, memory: 4}, {core: 200}),
        single("b", {core: 80, memory: 1}),
        single("c", {core: 70}),
    )
    notes = {bind.pod: bind.annotations[CARDS] for bind in run(state, config()).binds}
    assert notes == {"a-0": "0;1,2", "b-0": "3", "c-0": "0"}


def test_gpu_milli_asks_so_much_of_each_card() -> None:
    milli, count = "alibabacloud.com/gpu-milli", "alibabacloud.com/gpu-count"
    node = build.node("n1", **{milli: 4000, count: 4})
    state = build.cluster(
        node,
        single("a", {milli: 600}),
        single("b", {milli: 1000, count: 2}),
        single("c", {milli: 400}),
        single("d", {milli: 1000, count: 2}),
    )
    decisions = run(state, config())
    assert [b.annotations["alibabacloud.com/gpu-index"] for b in decisions.binds] == ["0", "1-2", "0"]


@pytest.mark.parametrize(
    ("switch", "asked", "expected"),
    [
        ("GPUSharingEnable", {"volcano.sh/gpu-memory": 6000}, ["0", "2", None]),
        ("GPUNumberEnable", {"volcano.sh/gpu-number": 1}, ["0", "2", None]),
    ],
)
def test_volcanos_older_sharing(switch: str, asked: dict[str, int], expected: list[str | None]) -> None:
    node = build.node("n1", **{"volcano.sh/gpu-memory": 24000, "volcano.sh/gpu-number": 3})
    node.metadata.annotations = {"volcano.sh/gpu-unhealthy-ids": "1"}
    state = build.cluster(node, *(single(name, asked) for name in "abc"))
    binds = {bind.pod: bind.annotations for bind in run(state, config(**{switch: True})).binds}
    assert [binds.get(f"{name}-0", {}).get("volcano.sh/gpu-index") for name in "abc"] == expected
    assert all(int(notes["volcano.sh/predicate-time"]) > 0 for notes in binds.values())


# ---- vGPU


def asked(number: int = 1, memory: int = 0, cores: int = 0) -> dict[str, int]:
    given = {"number": number, "memory": memory, "cores": cores}
    return {f"{VGPU}{key}": value for key, value in given.items() if value}


def vids(decisions: Decisions) -> dict[str, str]:
    return {bind.pod: bind.annotations["volcano.sh/vgpu-ids-new"] for bind in decisions.binds}


def test_a_vgpu_pod_is_told_its_cards_per_container() -> None:
    node = vnode("n1", vcard("A"), vcard("B"))
    state = build.cluster(node, single("a", asked(1, 4000, 25), {}, asked(2, 1000)))
    (bind,) = run(state, config(VGPUEnable=True)).binds
    ids = "B,NVIDIA,4000,25:;;B,NVIDIA,1000,0:A,NVIDIA,1000,0:"
    assert bind.annotations == {
        "volcano.sh/vgpu-node": "n1",
        "volcano.sh/vgpu-time": bind.annotations["volcano.sh/vgpu-time"],
        "volcano.sh/vgpu-ids-new": ids,
        "volcano.sh/devices-to-allocate": ids,
        "volcano.sh/bind-phase": "allocating",
        "volcano.sh/bind-time": bind.annotations["volcano.sh/bind-time"],
    }


def test_a_vgpu_gang_that_cannot_start_gives_its_slots_back_at_once() -> None:
    """Two of its pods fit and fill the card; the job after it gets the whole card in the same cycle."""
    gang = [build.group("a", 3), *(limited(build.pod(f"a-{i}", "a"), asked(1, 8000)) for i in range(3))]
    state = build.cluster(vnode("n1", vcard("A", shares=2)), gang, single("b", asked(1, 16000), created=5))
    assert vids(run(state, config(VGPUEnable=True))) == {"b-0": "A,NVIDIA,16000,0:"}


@pytest.mark.parametrize(("policy", "card"), [("", "C"), ("binpack", "B"), ("spread", "C")])
def test_policies_order_cards(policy: str, card: str) -> None:
    node = vnode("n1", vcard("A"), vcard("B"), vcard("C"))
    state = build.cluster(node)
    for name, ids in (("x", "A,NVIDIA,1000,0:"), ("y", "B,NVIDIA,5000,0:")):
        notes = {"volcano.sh/vgpu-ids-new": ids}
        state.apply("ADDED", kinds.PODS, limited(build.pod(name, node="n1", annotations=notes), asked(1, 1000)))
    for thing in build.flatten(single("a", asked(1, 2000))):
        state.apply("ADDED", build.kind_of(thing), thing)
    decisions = run(state, config(VGPUEnable=True, SchedulePolicy=policy))
    assert vids(decisions) == {"a-0": f"{card},NVIDIA,2000,0:"}


@pytest.mark.parametrize(
    ("notes", "card"),
    [
        ({"nvidia.com/use-gputype": "a100, h100"}, "B"),
        ({"nvidia.com/nouse-gputype": "A100"}, "C"),
        ({"volcano.sh/vgpu-use-gpuuuid": "A"}, "A"),
        ({"volcano.sh/vgpu-nouse-gpuuuid": "C,B"}, "A"),
        ({"volcano.sh/vgpu-use-gpuuuid": "C", "volcano.sh/vgpu-nouse-gpuuuid": "C"}, None),
        ({"volcano.sh/vgpu-mode": "hami-core"}, "C"),
        ({"volcano.sh/vgpu-mode": "mig"}, None),
    ],
)
def test_a_pod_may_choose_among_cards(notes: dict[str, str], card: str | None) -> None:
    node = vnode("n1", vcard("A"), vcard("B", model="NVIDIA-A100"), vcard("C"))
    state = build.cluster(node, single("a", asked(1, 2000), annotations=notes))
    decisions = run(state, config(VGPUEnable=True))
    assert vids(decisions) == ({"a-0": f"{card},NVIDIA,2000,0:"} if card else {})
    if card is None:
        assert decisions.verdicts["ns/a"].reasons == {"node(s) had no GPU that suits the pod, even if idle": 1}


def test_pods_of_a_group_can_keep_apart() -> None:
    notes = {"volcano.sh/vgpu-podgroup-policy": "spread"}
    pods = [limited(build.pod(f"g-{i}", "g", annotations=notes), asked(1, 1000)) for i in range(3)]
    state = build.cluster(vnode("n1", vcard("A"), vcard("B")), build.group("g", 2), pods, single("o", asked(1, 1000)))
    decisions = run(state, config(VGPUEnable=True))
    cards = [text[0] for pod, text in vids(decisions).items() if pod.startswith("g")]
    assert sorted(cards) == ["A", "B"]
    assert "o-0" in vids(decisions)


RULES = [{"app": "serving"}, {"team": "a", "kind": "batch"}]


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        pytest.param({"app": "serving"}, {"app": "serving"}, False, id="one rule"),
        pytest.param({"app": "serving", "x": "y"}, {"app": "serving"}, False, id="more labels do not matter"),
        pytest.param({"app": "serving"}, {"team": "a", "kind": "batch"}, True, id="different rules"),
        pytest.param({"team": "a", "kind": "batch"}, {"team": "a", "kind": "batch"}, False, id="all labels of a rule"),
        pytest.param({"team": "a"}, {"team": "a"}, True, id="some labels of a rule"),
        pytest.param({}, {"app": "serving"}, True, id="no labels"),
    ],
)
@pytest.mark.parametrize("running", [True, False])
def test_pods_of_one_rule_share_no_card(
    one: dict[str, str], other: dict[str, str], together: bool, running: bool
) -> None:
    settings = config(VGPUEnable=True, GPUExclusiveRules=RULES)
    state = build.cluster(vnode("n1", vcard("u0")), single("a", asked(memory=1000), labels=one))
    second = single("b", asked(memory=1000), labels=other, created=5)
    if running:  # the first one's card is known from its annotation
        confirm(state, run(state, settings))
    for thing in second:
        state.apply("ADDED", build.kind_of(thing), thing)
    decisions = run(state, settings)
    assert ("b-0" in build.placed(decisions)) is together
    if not together:
        assert decisions.verdicts["ns/b"].cause is Cause.NODES_FULL


def test_members_of_a_gang_under_one_rule_take_different_cards() -> None:
    settings = config(VGPUEnable=True, GPUExclusiveRules=RULES)
    pods = [limited(build.pod(f"g-{i}", "g", labels={"app": "serving"}), asked(memory=1000)) for i in range(2)]
    state = build.cluster(vnode("n1", vcard("u0"), vcard("u1")), build.group("g", 2), pods)
    assert {text.split(",")[0] for text in vids(run(state, settings)).values()} == {"u0", "u1"}


@pytest.mark.parametrize("rules", [[{}], ["app"], [{"app": 1}]])
def test_rules_that_say_nothing_are_refused(rules: list[Any]) -> None:
    with pytest.raises(ConfigError, match=r"deviceshare\.GPUExclusiveRules: entry 0"):
        create(PluginConfig("deviceshare", arguments={"deviceshare.GPUExclusiveRules": rules}))


def test_instances_of_a_partitioned_card() -> None:
    model = "NVIDIA-A100-SXM4-40GB"
    node = vnode("n1", vcard("A", memory=40960, model=model, mode="mig"), number=10, memory=40960, cores=100)
    state = build.cluster(node, *(single(f"p{i}", asked(1, 9000)) for i in range(4)), single("s", asked(1, 2000)))
    first = run(state, config(VGPUEnable=True))
    assert vids(first) == {
        "p0-0": "A[1-0],NVIDIA,10240,0:",
        "p1-0": "A[1-1],NVIDIA,10240,0:",
        "p2-0": "A[1-2],NVIDIA,10240,0:",
        "s-0": "A[1-3],NVIDIA,5120,0:",
    }
    confirm(state, first)
    assert run(state, config(VGPUEnable=True)).binds == []


def test_new_geometries_count_from_the_next_cycle_on() -> None:
    sizes = [{"geometries": [{"name": "whole", "memory": 16000, "count": 1}]}]
    given = [{"models": ["T4"], "allowedGeometries": sizes}]
    state = build.cluster(vnode("n1", vcard("A", mode="mig")), *(single(name, asked(1, 4000)) for name in "ab"))
    assert vids(run(state, config(VGPUEnable=True))) == {"a-0": "A,NVIDIA,4000,0:", "b-0": "A,NVIDIA,4000,0:"}
    assert vids(run(state, config(VGPUEnable=True, KnownGeometries=given))) == {"a-0": "A[0-0],NVIDIA,16000,0:"}


@pytest.mark.parametrize(
    "broken",
    [
        "A,10,16000,T4,true",
        "A,x,16000,T4,true,hami-core",
        "",
    ],
)
def test_a_node_with_an_unreadable_list_of_cards_has_none(broken: str) -> None:
    state = build.cluster(vnode("n1", broken), single("a", asked(1, 1000)))
    assert run(state, config(VGPUEnable=True)).verdicts["ns/a"].reasons == {"node(s) had no shared GPUs (vgpu)": 1}


def test_broken_annotations_of_pods_count_as_none() -> None:
    notes = {"volcano.sh/vgpu-ids-new": "Z,NVIDIA,x,0:;gone,NVIDIA,5,5:;;A"}
    held = limited(build.pod("x", node="n1", annotations=notes), asked(1, 1000))
    state = build.cluster(vnode("n1", vcard("A")), held, single("a", asked(1, 16000)))
    assert vids(run(state, config(VGPUEnable=True))) == {"a-0": "A,NVIDIA,16000,0:"}


# ---- scores


def test_scores_fill_or_spare_cards() -> None:
    def chosen(**arguments: Any) -> str:
        held = limited(build.pod("x", node="n2", annotations={"ALIYUN_COM_GPU_MEM_IDX": "0"}), {MEM: 8})
        state = build.cluster(shared("n1"), shared("n2", 1), shared("n3"), held, single("a", {MEM: 4}))
        return run(state, config(**arguments)).binds[0].node

    assert chosen() == "n1"
    assert chosen(SchedulePolicy="binpack", ScheduleWeight=10) == "n2"
    assert chosen(SchedulePolicy="spread", ScheduleWeight=10) == "n1"


def test_the_policy_holds_for_every_family() -> None:
    def card(**arguments: Any) -> str:
        held = limited(
            build.pod("x", node="n1", annotations={"volcano.sh/gpu-index": "0"}), {"volcano.sh/gpu-memory": 1}
        )
        node = build.node("n1", **{"volcano.sh/gpu-memory": 20, "volcano.sh/gpu-number": 2})
        state = build.cluster(node, held, single("a", {"volcano.sh/gpu-memory": 5}))
        return run(state, config(GPUSharingEnable=True, **arguments)).binds[0].annotations["volcano.sh/gpu-index"]

    assert [card(), card(SchedulePolicy="binpack"), card(SchedulePolicy="spread")] == ["0", "0", "1"]


def test_unhealthy_cards_are_left_out() -> None:
    sick = vcard("B").replace("true", "false")
    state = build.cluster(vnode("n1", vcard("A"), sick), *(single(name, asked(1, 9000)) for name in "ab"))
    assert vids(run(state, config(VGPUEnable=True))) == {"a-0": "A,NVIDIA,9000,0:"}


def test_other_pods_stay_on_the_fast_path() -> None:
    from unisono.engine.cycle.context import Cycle
    from unisono.engine.plugins.registry import lookup_with

    state = build.cluster(shared("n1"), single("a", {MEM: 4}), single("b", {"cpu": 1}))
    cycle = Cycle(state.snapshot(), config(), 0.0, 0, lookup_with({}))
    tables = {name: cycle.tables.of(state.tasks[f"ns/{name}-0"].pod_class) for name in "ab"}
    assert (tables["a"].batchable, tables["b"].batchable) == (False, True)


@pytest.mark.parametrize(
    "arguments",
    [
        {"GPUSharingEnable": True, "GPUNumberEnable": True},
        {"VGPUEnable": True, "GPUSharingEnable": True},
        {"SchedulePolicy": "pack"},
        {"KnownGeometries": [{}]},
    ],
)
def test_what_contradicts_itself_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="deviceshare"):
        create(PluginConfig("deviceshare", arguments={f"deviceshare.{k}": v for k, v in arguments.items()}))


# ---- waiting for cards


def test_a_gang_waits_for_the_cards_that_are_being_released() -> None:
    leaving = limited(build.pod("x", node="n1", annotations={"ALIYUN_COM_GPU_MEM_IDX": "1"}, deleting=True), {MEM: 16})
    staying = limited(build.pod("y", node="n1", annotations={"ALIYUN_COM_GPU_MEM_IDX": "0"}), {MEM: 12})
    state = build.cluster(shared("n1"), leaving, staying, single("a", {MEM: 10}), single("b", {MEM: 8}, created=1))
    decisions = run(state, config())
    assert decisions.binds == []
    assert [waiting.pod for waiting in decisions.pipelined] == ["a-0"]


@pytest.mark.parametrize(
    ("need", "evicted", "waiting"),
    [
        (3, [], []),  # 4 are idle on each card
        (6, ["l1-0"], ["h-0"]),  # 8 are idle, on no one card
        (16, ["l1-0"], ["h-0"]),
        (17, [], []),  # no card is so large
    ],
)
def test_preemption_frees_cards_not_sums(need: int, evicted: list[str], waiting: list[str]) -> None:
    low = [
        [
            build.group(f"l{i}", 0),
            limited(
                build.pod(f"l{i}-0", f"l{i}", node="n1", priority=1, annotations={"ALIYUN_COM_GPU_MEM_IDX": str(i)}),
                {MEM: 12},
            ),
        ]
        for i in range(2)
    ]
    high = limited(build.pod("h-0", "h", priority=9, priority_class="high"), {MEM: need})
    state = build.cluster(
        shared("n1"), build.priority_class("high", 9), low, build.group("h", 1, priority_class="high"), high
    )
    decisions = run(state, config("allocate, preempt"))
    assert [eviction.pod for eviction in decisions.evictions] == evicted
    assert [promised.pod for promised in decisions.pipelined] == waiting


# ---- properties

JOBS = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 18), st.sampled_from((0, 30, 50))), min_size=1, max_size=8)


@pytest.mark.more
@settings(max_examples=examples(80), deadline=None)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=3), JOBS, st.sampled_from(("", "binpack", "spread")))
def test_cards_are_never_over_and_gangs_never_half(
    nodes: list[int], jobs: list[tuple[int, int, int]], policy: str
) -> None:
    core = "aliyun.com/gpu-core.percentage"
    state = build.cluster(
        [shared(f"n{i}", cards, **{core: 100 * cards}) for i, cards in enumerate(nodes)],
        [
            [
                build.group(f"j{i}", size),
                *(limited(build.pod(f"j{i}-{k}", f"j{i}"), {MEM: mem, core: cores}) for k in range(size)),
            ]
            for i, (size, mem, cores) in enumerate(jobs)
        ],
    )
    settings_of = config(SchedulePolicy=policy, ScheduleWeight=1)
    held: Counter[tuple[str, str, int]] = Counter()
    for _ in range(2):
        decisions = run(state, settings_of)
        started = Counter(bind.job for bind in decisions.binds)
        for job, number in started.items():
            assert number == jobs[int(job[4:])][0]
        for bind in decisions.binds:
            _, mem, cores = jobs[int(bind.job[4:])]
            card = bind.annotations["ALIYUN_COM_GPU_MEM_IDX"]
            held[bind.node, card, 0] += mem
            held[bind.node, card, 1] += cores
        assert all(amount <= (100 if kind else 16) for (_, _, kind), amount in held.items())
        confirm(state, decisions)


# ---- as far as nodes offer cards


OFFERS: dict[str, tuple[list[Node], dict[str, int], bool]] = {
    "Alibaba's": ([shared("n1")], {MEM: 12}, True),
    "HAMi's": ([vnode("n1", vcard("a"), vcard("b"))], {f"{VGPU}number": 1, f"{VGPU}memory": 12000}, True),
    "Volcano's": (
        [build.node("n1", **{"volcano.sh/gpu-memory": 32, "volcano.sh/gpu-number": 2})],
        {"volcano.sh/gpu-memory": 12},
        True,
    ),
    "memory without a number of cards": ([build.node("n1", **{MEM: 32})], {MEM: 10}, False),
    "vGPUs that are not listed": (
        [build.node("n1", **{f"{VGPU}number": 20, f"{VGPU}memory": 20})],
        {f"{VGPU}memory": 6},
        False,
    ),
}


@pytest.mark.parametrize(("nodes", "limits", "by_card"), OFFERS.values(), ids=OFFERS)
def test_the_default_configuration_looks_at_cards_as_soon_as_a_node_lists_them(
    nodes: list[Node], limits: dict[str, int], by_card: bool
) -> None:
    """Two cards take one such pod each, and their sum would take more."""
    state = build.cluster(nodes, [single(f"p{at}", {**limits, "cpu": 0}) for at in range(3)])
    decisions = run(state, default_config())
    assert len(decisions.binds) == (2 if by_card else 3)
    assert all(bool(bind.annotations) is by_card for bind in decisions.binds)


def test_cards_that_come_later_are_seen() -> None:
    state = build.cluster([build.node("n0", cpu=4)], [single("p", {MEM: 12})])
    assert run(state, default_config()).binds == []
    state.apply("ADDED", kinds.NODES, shared("n1"))
    (bind,) = run(state, default_config()).binds
    assert bind.node == "n1" and bind.annotations
