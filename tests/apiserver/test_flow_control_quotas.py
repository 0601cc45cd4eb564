"""How many requests at a time a user has, a tenant with all its users, and who has none yet."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.api.annotations import tenant
from unisono.apiserver.access.user import User
from unisono.apiserver.flow_control import Limits
from unisono.apiserver.http.connections import FlowControl, Quota

ACCOUNT = "system:serviceaccount:"


@pytest.mark.parametrize(
    ("user", "found"),
    [
        ("bob", "bob"),
        (f"{ACCOUNT}team:a", "system:serviceaccounts:team"),
        (f"{ACCOUNT}team:b", "system:serviceaccounts:team"),
        (f"{ACCOUNT}other:a", "system:serviceaccounts:other"),
        (ACCOUNT, ACCOUNT),
        (f"{ACCOUNT}team", f"{ACCOUNT}team"),
    ],
)
def test_accounts_belong_to_the_tenant_of_their_namespace(user: str, found: str) -> None:
    assert tenant(user) == found


def taken(quota: Quota, users: list[tuple[str, str]], held: ExitStack) -> list[bool]:
    """Whether each of these got one, in turn."""
    found = []
    for user, belongs in users:
        found.append(not quota.full(user, belongs))
        if found[-1]:
            held.enter_context(quota.one(user, belongs))
    return found


@pytest.mark.parametrize("tenants", [1, 2, 5])
def test_accounts_without_end_leave_room_for_others(tenants: int) -> None:
    flow = FlowControl(Limits())
    for verb in ("list", "watch", "log", "connect"):
        with ExitStack() as held:
            for number in range(5_000):
                user = User(f"{ACCOUNT}eve-{number % tenants}:a{number}")
                quotas = [quota for _, quota in flow.quotas(verb, user, own=False)]
                if not any(quota.full(user.name, tenant(user.name)) for quota in quotas):
                    for quota in quotas:
                        held.enter_context(quota.one(user.name, tenant(user.name)))
            for name in ("bob", f"{ACCOUNT}team:default"):
                assert not any(q.full(name, tenant(name)) for _, q in flow.quotas(verb, User(name), own=False))


def test_one_user_alone_has_what_the_limits_say() -> None:
    for name in ("streams", "logs", "sessions"):
        limits = Limits()
        total, each = getattr(limits, name), getattr(limits, f"{name}_of_one")
        with ExitStack() as held:
            assert sum(taken(Quota(total, each), [("eve", "eve")] * total, held)) == each


@given(
    total=st.integers(1, 40),
    each=st.integers(1, 40),
    users=st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("xyz")), max_size=80),
)
def test_bounds_hold_and_all_is_given_back(total: int, each: int, users: list[tuple[str, str]]) -> None:
    quota, held = Quota(total, each), ExitStack()
    got = [who for who, given in zip(users, taken(quota, users, held), strict=True) if given]
    assert len(got) <= total
    assert all(sum(user == name for user, _ in got) <= each for name in "abcdef")
    held.close()
    again = ExitStack()
    assert taken(quota, users, again) == taken(Quota(total, each), users, ExitStack())
