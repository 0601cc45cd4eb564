"""Pods that stand for jobs, and the pods of members that take their place."""

from __future__ import annotations

import pytest

from unisono.api.annotations import CLUSTER, DISPATCH, HUB, ORIGIN_GROUP, ORIGIN_UID
from unisono.api.base import ObjectMeta
from unisono.api.core import Pod, PodSpec
from unisono.api.keys import GROUP_NAME
from unisono.fleet.jobs.copies import Placement
from unisono.fleet.jobs.stand_ins import StandIns
from unisono.fleet.jobs.translation import Origin
from unisono.fleet.members.member import MemberSink

A, B = Origin("hub", "a"), Origin("hub", "b")
HOME = Placement("a", 1)


def made(*names: str) -> list[Pod]:
    return [Pod(metadata=ObjectMeta(name=name, namespace="default")) for name in names]


def real(name: str, generation: int = 1, node: str = "", uid: str = "u") -> Pod:
    labels = {HUB: "hub", ORIGIN_UID: uid, DISPATCH: str(generation)}
    meta = ObjectMeta(
        name=name, namespace="default", uid=f"real-{name}", labels=labels, annotations={ORIGIN_GROUP: "g"}
    )
    return Pod(metadata=meta, spec=PodSpec(node_name=node or None))


class State:
    """What the hub's state would hold."""

    def __init__(self) -> None:
        self.stands, self.pods = StandIns(), {}

    def take(self, changes) -> None:
        for event_type, pod in changes:
            assert (event_type == "ADDED") == (pod.key not in self.pods)
            if event_type == "DELETED":
                del self.pods[pod.key]
            else:
                self.pods[pod.key] = pod

    def nodes(self) -> dict[str, str | None]:
        return {key: pod.spec.node_name for key, pod in sorted(self.pods.items())}


def test_a_waiting_job_has_pods_without_nodes():
    state = State()
    state.take(state.stands.put("u", Placement(), made("p0", "p1")))
    assert state.nodes() == {"default/p0": None, "default/p1": None}
    state.take(state.stands.put("u", Placement(), made("p0")))
    assert state.nodes() == {"default/p0": None}
    state.take(state.stands.remove("u"))
    assert state.nodes() == {}


def test_a_dispatched_job_keeps_its_places_until_its_member_has_chosen():
    state = State()
    state.take(state.stands.put("u", Placement(), made("p0", "p1")))
    state.stands.place("u", "p0", "a:n1")
    state.take(state.stands.put("u", HOME, made("p0", "p1")))
    assert state.nodes() == {"default/p0": "a:n1", "default/p1": None}
    assert state.pods["default/p1"].spec.node_selector == {CLUSTER: "a"}
    state.take(state.stands.pod("ADDED", A, real("p0")))
    assert state.nodes()["default/p0"] == "a:n1"
    assert state.pods["default/p0"].metadata.uid == "real-p0"
    state.take(state.stands.pod("MODIFIED", A, real("p0", node="n7")))
    assert state.nodes()["default/p0"] == "a:n7"
    # Its member makes it again: meanwhile its place stays taken.
    state.take(state.stands.pod("DELETED", A, real("p0")))
    assert state.nodes()["default/p0"] == "a:n1"


def test_a_job_that_is_taken_back_waits_and_its_old_pods_only_occupy():
    state = State()
    state.stands.put("u", HOME, [])
    state.take(state.stands.put("u", HOME, made("p0")))
    state.take(state.stands.pod("ADDED", A, real("p0", node="n1")))
    state.stands.place("u", "p0", "a:n1")
    state.take(state.stands.put("u", Placement("", 2), made("p0")))
    assert state.nodes() == {"a:default/p0": "a:n1", "default/p0": None}
    state.take(state.stands.put("u", Placement("b", 3), made("p0")))
    state.take(state.stands.pod("ADDED", B, real("p0", 3, node="n9")))
    assert state.nodes() == {"a:default/p0": "a:n1", "default/p0": "b:n9"}
    state.take(state.stands.pod("DELETED", A, real("p0", node="n1")))
    assert state.nodes() == {"default/p0": "b:n9"}


def test_pods_may_be_seen_before_their_job_and_after_it():
    state = State()
    state.take(state.stands.pod("ADDED", A, real("p0", node="n1")))
    assert state.nodes() == {"a:default/p0": "a:n1"}
    state.take(state.stands.put("u", HOME, made("p0")))
    assert state.nodes() == {"default/p0": "a:n1"}
    state.take(state.stands.remove("u"))
    assert state.nodes() == {"a:default/p0": "a:n1"}
    state.take(state.stands.pod("DELETED", A, real("p0")))
    assert state.nodes() == {}
    assert not state.stands._jobs


def test_others_pods_pass_through():
    state = State()
    pod = Pod(metadata=ObjectMeta(name="p", namespace="default"), spec=PodSpec(node_name="n"))
    state.take(state.stands.pod("ADDED", A, pod))
    assert state.nodes() == {"a:default/p": "a:n"}


@pytest.mark.parametrize("first", ["claim", "job"])
def test_a_pod_that_says_it_is_anothers_takes_no_stand_ins_place(first: str):
    """A member, or a user of one, has job u there and gives a pod of it the name of a pod of job v, which waits."""
    state = State()
    state.take(state.stands.put("u", HOME, made("p0")))

    def claim() -> None:
        state.take(state.stands.pod("ADDED", A, real("q0", node="n1", uid="u")))

    if first == "claim":
        claim()
        assert state.nodes() == {"default/q0": "a:n1"}  # a pod of u, as far as is known
    state.take(state.stands.put("v", Placement(), made("q0")))
    if first == "job":
        claim()
    # It occupies its node in its member, and job v waits on as before.
    assert state.nodes() == {"a:default/q0": "a:n1", "default/p0": "a:-", "default/q0": None}
    state.take(state.stands.pod("DELETED", A, real("q0", node="n1", uid="u")))
    assert state.nodes() == {"default/p0": "a:-", "default/q0": None}
    state.take(state.stands.remove("v"))
    state.take(state.stands.remove("u"))
    assert state.nodes() == {}
    assert not state.stands._claims
    assert not state.stands._owners


def test_a_pod_counts_in_its_own_jobs_gang_whatever_gang_it_names():
    state = State()
    stand = made("p0")
    stand[0].metadata.annotations = {GROUP_NAME: "own"}
    state.take(state.stands.put("u", HOME, stand))
    state.take(state.stands.pod("ADDED", A, real("p0", node="n1")))  # it names the gang g
    assert state.pods["default/p0"].metadata.annotations[GROUP_NAME] == "own"


def test_a_pod_in_another_namespace_is_none_of_the_job():
    state = State()
    state.take(state.stands.put("u", HOME, made("p0")))
    other = real("p0", node="n1")
    other.metadata.namespace = "theirs"
    state.take(state.stands.pod("ADDED", A, other))
    assert state.nodes() == {"a:theirs/p0": "a:n1", "default/p0": "a:-"}
    assert state.stands.bound("u") == 0


def sink(most: int) -> tuple[MemberSink[Pod], list[str]]:
    told: list[str] = []
    return MemberSink(lambda event_type, pod: told.append(f"{event_type} {pod.metadata.name}"), most=most), told


def test_a_member_shows_no_more_objects_than_are_taken_in():
    full, told = sink(2)
    full.replace(made("a"))
    full.apply("ADDED", made("b")[0])
    full.apply("ADDED", made("c")[0])
    full.apply("MODIFIED", made("a")[0])
    full.apply("DELETED", made("c")[0])
    assert told == ["ADDED a", "ADDED b", "MODIFIED a"]
    assert full.full
    full.replace(made("a", "b"))
    assert not full.full
