"""Whose connections are dropped when too many are open."""

from __future__ import annotations

from collections import Counter

import pytest

from unisono.apiserver.access.user import ADMIN, ANONYMOUS, AUTHENTICATED, User
from unisono.apiserver.flow_control import Limits
from unisono.apiserver.http.connections import Connections, is_local, network
from unisono.errors import ConfigError

LIMITS = Limits(connections=6, connections_of_one=4, newcomers=3, newcomers_of_address=2)


class Book:
    """Connections by number, with a clock that the test turns."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.now = 0.0
        self.causes: Counter[str] = Counter()
        self.closed: list[int] = []
        self.book = Connections(limits, lambda: self.now, lambda cause: self.causes.update((cause,)))

    def come(self, number: int, address: str = "127.0.0.1") -> bool:
        return self.book.admit(number, address, lambda: self.closed.append(number))

    def request(self, number: int, user: str, *groups: str, ended: bool = True) -> bool:
        self.book.begins(number)
        known = ANONYMOUS if user == ANONYMOUS.name else User(user, (*groups, AUTHENTICATED))
        taken = self.book.belongs(number, known)
        if ended:
            self.book.ends(number)
        return taken


def test_newcomers_make_room_for_each_other_after_their_time() -> None:
    book = Book()
    for number in range(3):
        assert book.book.room() == 0
        assert book.come(number)
    # Clients that connect at the same time wait for each other ...
    assert book.book.room() > 0
    assert book.closed == []
    # ... and one that trickles its handshake goes.
    book.now = 5.0
    assert book.book.room() == 0
    assert book.closed == [0]
    assert book.causes == {"newcomers": 1}
    assert book.book.newcomers == 2


def test_a_head_has_less_time_than_a_handshake() -> None:
    book = Book()
    for number in range(3):
        book.come(number)
    book.book.secured(2)
    book.now = 1.0
    assert book.book.room() == 0
    assert book.closed == [2]


def test_a_user_that_is_known_is_no_newcomer() -> None:
    book = Book()
    for number in range(3):
        book.come(number)
        assert book.request(number, "eve")
    assert (book.book.newcomers, len(book.book)) == (0, 3)
    assert book.book.room() == 0


def test_unknown_clients_stay_newcomers_and_keep_a_request_in_progress() -> None:
    book = Book()
    for number in range(3):
        book.come(number)
        book.request(number, ANONYMOUS.name, ended=number != 0)
    assert book.book.room() == 0
    assert book.closed == [1]


def test_the_address_with_most_newcomers_gives_way() -> None:
    book = Book(Limits(newcomers=4, newcomers_of_address=3))
    book.come(0, "192.0.2.1")
    for number in range(1, 4):
        book.come(number, "192.0.2.9")
    book.now = 5.0
    assert book.book.room() == 0
    assert book.closed == [1]


def test_one_address_has_so_many_newcomers_and_no_more() -> None:
    book = Book(Limits(newcomers=10, newcomers_of_address=2))
    assert book.come(0, "2001:db8::1")
    assert book.come(1, "2001:db8::2")
    assert not book.come(2, "2001:db8::3")
    assert book.causes == {"address": 1}
    assert book.come(3, "2001:db8:0:1::3")
    book.now = 5.0
    assert book.come(4, "2001:db8::4")
    assert book.closed == [0]


def test_one_user_loses_idle_connections_before_a_request_is_refused() -> None:
    book = Book(Limits(connections_of_one=2))
    for number in range(3):
        book.come(number)
    assert book.request(0, "eve", ended=False)
    assert book.request(1, "eve")
    assert book.request(2, "eve", ended=False)
    assert book.closed == [1]
    book.come(3)
    assert not book.request(3, "eve")
    assert book.causes == {"user_connections": 2}
    assert book.request(3, "alice")


def test_a_full_server_lets_another_client_in() -> None:
    book = Book(Limits(connections=4, newcomers=2))
    for number, user in enumerate(("eve", "eve", "eve", "alice")):
        book.come(number)
        book.request(number, user, ended=False)
    assert book.book.room() == 0
    assert book.closed == [0]
    book.come(4)
    book.request(4, "eve")
    # An idle one goes before one that is in use.
    assert book.book.room() == 0
    assert book.closed == [0, 4]


def test_accounts_of_one_namespace_count_together() -> None:
    """Who may make accounts makes as many as a server takes connections."""
    book = Book(Limits(connections=6, newcomers=2))
    for number, user in enumerate(("bob", "bob", *(f"system:serviceaccount:eve:a{n}" for n in range(4)))):
        book.come(number)
        book.request(number, user, ended=False)
    assert book.book.room() == 0
    assert book.closed == [2]


def test_requests_of_administrators_are_not_broken_off() -> None:
    book = Book(Limits(connections=2, newcomers=1))
    for number in range(2):
        book.come(number)
        book.request(number, ADMIN.name, *ADMIN.groups, ended=False)
    assert book.book.room() > 0
    assert book.closed == []


def test_a_connection_leaves_once() -> None:
    book = Book()
    book.come(0)
    book.book.drop(0, "head")
    book.book.leave(0)
    assert (len(book.book), book.book.newcomers, book.closed) == (0, 0, [0])
    # One that is not in the book has no bounds.
    assert book.request(7, "eve")


@pytest.mark.parametrize(
    ("address", "counted", "local"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("::1", "::/64", True),
        ("::ffff:127.0.0.1", "127.0.0.1", True),
        ("::ffff:192.0.2.1", "192.0.2.1", False),
        ("2001:db8::1", "2001:db8::/64", False),
        ("", "", True),
    ],
)
def test_what_newcomers_are_counted_by(address: str, counted: str, local: bool) -> None:
    assert (network(address), is_local(address)) == (counted, local)


@pytest.mark.parametrize("files", [1, 64, 1024, 20_000, 1 << 20])
def test_a_quarter_of_the_files_is_left_to_the_server(files: int) -> None:
    limits = Limits().within(files)
    if files >= 64:
        assert limits.connections + limits.logs + 4 * limits.sessions + limits.forwarded <= files * 3 // 4
    assert limits.newcomers <= limits.connections
    assert 0 < limits.connections_of_one <= limits.connections


def test_limits_are_set_by_name() -> None:
    limits = Limits().changed(["in-flight=7", "idle_seconds = 1.5"])
    assert (limits.in_flight, limits.idle_seconds) == (7, 1.5)


@pytest.mark.parametrize("setting", ["in-flight", "inflight=3", "in-flight=0", "in-flight=1.5", "idle-seconds=nan"])
def test_a_limit_that_makes_no_sense_is_refused(setting: str) -> None:
    with pytest.raises(ConfigError, match=r"NAME=VALUE|above 0"):
        Limits().changed([setting])
