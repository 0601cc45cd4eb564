"""Cards as arrays: which cards a demand gets, family by family, and what pods are told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.examples import examples
from unisono.engine.plugins.deviceshare import model
from unisono.engine.plugins.deviceshare.model import Card, Hold, NodeCards, Order, Part
from unisono.engine.plugins.deviceshare.table import CORES, COUNT, MEMORY, WHOLE, CardTable

A100 = model.geometry_of("NVIDIA-A100-SXM4-40GB")


def table(*memory: int, used: dict[int, int] | None = None, slots: int = 10, geometry: Any = None) -> CardTable:
    """One node with cards of the given sizes; ``used`` is memory by card."""
    cards = tuple(Card(f"gpu-{index}", size, slots) for index, size in enumerate(memory))
    made = CardTable([NodeCards(cards, "mig" if geometry else "", (geometry,) * len(cards) if geometry else ())])
    for card, amount in (used or {}).items():
        made.used.amounts[:, 0, card] += (amount, 0, 1, 0)
    return made


def choose(made: CardTable, *parts: Part, order: Order = Order.FIRST) -> list[list[int]] | None:
    plan = made.plan(np.array([0]), parts, order, future=False)
    return [[hold.card for hold in part] for part in plan.holds(0, parts)] if plan.ok[0] else None


@pytest.mark.parametrize(
    ("order", "card"),
    [(Order.FIRST, 0), (Order.LAST, 3), (Order.BEST_FIT, 1), (Order.BINPACK, 1), (Order.SPREAD, 3)],
)
def test_orders_of_cards(order: Order, card: int) -> None:
    made = table(10, 10, 10, 10, used={0: 1, 1: 6, 2: 5})
    assert choose(made, Part(memory=4), order=order) == [[card]]


@pytest.mark.parametrize(
    ("sizes", "used", "parts", "cards"),
    [
        ([8, 8], {0: 5, 1: 5}, [Part(memory=4)], None),  # 6 are free, on no one card
        ([8, 8], {0: 5, 1: 4}, [Part(memory=4)], [[1]]),
        ([8, 8, 8], {1: 5}, [Part(2, 4)], [[0, 2]]),
        ([8, 8], {1: 5}, [Part(2, 4)], None),
        ([8, 8], {}, [Part(3, 1)], None),  # more cards than there are
        ([8, 8], {}, [Part(memory=5), Part(memory=5)], [[0], [1]]),  # each part sees what the others took
        ([8, 8], {}, [Part(memory=5), Part(memory=5), Part(memory=5)], None),
        ([8, 9], {}, [Part(percent=50), Part(percent=70)], [[0], [1]]),
        ([8, 8], {0: 1}, [Part(2, whole=True)], None),
        ([8, 8, 8], {0: 1}, [Part(2, whole=True)], [[1, 2]]),
        ([8], {}, [Part(whole=True), Part(memory=1)], None),  # nobody joins who wants to be alone
        ([8], {}, [Part(memory=1, cores=60), Part(memory=1, cores=50)], None),
        ([8], {}, [Part(memory=1, cores=60), Part(memory=1, cores=40)], [[0], [0]]),
        ([8], {}, [Part(memory=1, cores=100), Part(memory=1)], None),
        ([8], {0: 1}, [Part(memory=1, cores=100)], None),
    ],
)
def test_parts(sizes: list[int], used: dict[int, int], parts: list[Part], cards: list[list[int]] | None) -> None:
    assert choose(table(*sizes, used=used), *parts) == cards


def test_a_card_takes_no_more_pods_than_it_has_shares() -> None:
    assert choose(table(8, slots=2, used={0: 0}), Part(memory=1), Part(memory=1)) is None


def test_what_is_released_counts_only_for_those_who_wait() -> None:
    made = table(8, used={0: 8})
    made.releasing.add(0, ((Hold(0, 8),),), 1)
    rows, part = np.array([0]), [Part(memory=8)]
    assert not made.plan(rows, part, Order.FIRST, future=False).ok[0]
    assert made.plan(rows, part, Order.FIRST, future=True).ok[0]
    made.pipelined.add(0, ((Hold(0, 1),),), 1)
    assert not made.plan(rows, part, Order.FIRST, future=True).ok[0]


# ---- instances


@pytest.mark.parametrize(
    ("taken", "memory", "slot", "size"),
    [
        (set(), 4000, (0, 0), 5120),
        (set(), 5120, (0, 0), 5120),
        (set(), 5121, (1, 0), 10240),
        (set(), 40960, (3, 0), 40960),
        ({(0, 0), (0, 2)}, 1, (0, 1), 5120),
        ({(1, 0)}, 1, (1, 3), 5120),  # the one small instance comes last in its group
        ({(1, 0), (1, 3)}, 1, (1, 1), 10240),
    ],
)
def test_the_smallest_free_instance_is_taken(taken: set[model.Slot], memory: int, slot: model.Slot, size: int) -> None:
    assert A100 is not None
    assert model.place(A100, taken, memory) == (slot, size)


@pytest.mark.parametrize(
    ("taken", "memory"), [(set(), 40961), ({(0, 0)}, 10240), ({(0, p) for p in range(7)}, 1), ({(3, 0)}, 1)]
)
def test_a_card_in_use_keeps_its_group(taken: set[model.Slot], memory: int) -> None:
    assert A100 is not None
    assert model.place(A100, taken, memory) is None


def test_no_instance_is_given_twice_in_one_session() -> None:
    made = table(40960, geometry=A100)
    seen = []
    for _ in range(7):
        plan = made.plan(np.array([0]), [Part(memory=5000)], Order.FIRST, future=False)
        assert plan.ok[0]
        holds = plan.holds(0, [Part(memory=5000)])
        made.used.add(0, holds, 1)
        seen.append(holds[0][0].slot)
    assert sorted(slot for slot in seen if slot) == [(0, position) for position in range(7)]
    assert not made.plan(np.array([0]), [Part(memory=1)], Order.FIRST, future=False).ok[0]


def test_geometries_can_be_given() -> None:
    given = [{"models": ["X1"], "allowedGeometries": [{"geometries": [{"name": "1x", "memory": 10, "count": 2}]}]}]
    models = model.read_models(given)
    assert model.geometry_of("NVIDIA-X1-PCIE", models) == ((model.Instances("1x", 10, 2),),)
    assert model.geometry_of("A100", models) is None
    with pytest.raises(ValueError, match="entry 0 of the known geometries"):
        model.read_models([{"models": ["X1"]}])


# ---- properties

PARTS = st.builds(
    Part,
    count=st.integers(1, 3),
    memory=st.integers(0, 10),
    cores=st.sampled_from((0, 0, 10, 50, 100)),
    whole=st.booleans(),
)
DEMANDS = st.lists(st.lists(PARTS, min_size=1, max_size=3), max_size=12)


@settings(max_examples=examples(300), deadline=None)
@given(DEMANDS, st.sampled_from(Order), st.lists(st.integers(1, 12), min_size=1, max_size=4), st.data())
def test_no_card_is_over_its_memory_cores_or_shares(
    demands: list[list[Part]], order: Order, sizes: list[int], data: st.DataObject
) -> None:
    made = table(*sizes, slots=3)
    standing = []
    for parts in demands:
        if standing and data.draw(st.booleans()):
            made.used.add(0, standing.pop(data.draw(st.integers(0, len(standing) - 1))), -1)
        plan = made.plan(np.array([0]), parts, order, future=False)
        if plan.ok[0]:
            holds = plan.holds(0, parts)
            assert all(len({hold.card for hold in part}) == len(part) for part in holds)
            made.used.add(0, holds, 1)
            standing.append(holds)
            assert (plan.after[:, 0] == made.used.amounts[:, 0]).all()
        load = made.used.amounts[:, 0]
        assert (load >= 0).all()
        assert (load[MEMORY] <= made.memory[0]).all()
        assert (load[CORES] <= 100).all()
        assert (load[COUNT] <= 3).all()
        assert ((load[WHOLE] == 0) | (load[COUNT] == 1)).all()
    for holds in standing:
        made.used.add(0, holds, -1)
    assert not made.used.amounts.any()


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 8), min_size=3, max_size=3), min_size=1, max_size=5),
    DEMANDS,
    st.sampled_from(Order),
)
def test_many_nodes_at_once_give_what_each_gives_alone(
    loads: list[list[int]], demands: list[list[Part]], order: Order
) -> None:
    made = CardTable([NodeCards(tuple(Card("", 8) for _ in range(3))) for _ in loads])
    made.used.amounts[MEMORY] = np.array(loads)
    made.used.amounts[COUNT] = np.array(loads) > 0
    every = np.arange(len(loads))
    for parts in demands:
        together = made.plan(every, parts, order, future=False)
        for row in every:
            alone = made.plan(every[[row]], parts, order, future=False)
            assert alone.ok[0] == together.ok[row]
            if alone.ok[0]:
                assert alone.holds(0, parts) == together.holds(int(row), parts)
                assert (alone.packed[0], alone.alone[0]) == (together.packed[row], together.alone[row])
