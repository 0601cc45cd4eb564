from __future__ import annotations

from support.memory import MemoryClient
from support.virtual_clock import settle
from unisono.api.base import ObjectMeta
from unisono.api.core import Event, Pod
from unisono.api.kinds import EVENTS
from unisono.errors import ApiError, Unavailable
from unisono.kube.events import EventRecorder


def pod(name: str = "p") -> Pod:
    return Pod(metadata=ObjectMeta(name=name, namespace="team", uid=f"uid-{name}"))


def recorder(client: MemoryClient, **options: int) -> EventRecorder:
    return EventRecorder(client, "unisono", clock=client.clock, **options)


def summary(event: Event) -> tuple[str | None, str | None, int | None]:
    return event.reason, event.message, event.count


async def test_an_event_names_its_object_even_when_lists_leave_the_kind_out() -> None:
    client = MemoryClient()
    events = recorder(client)
    events.event(pod(), "Warning", "FailedScheduling", "no room")
    await settle()
    (event,) = client.objects(EVENTS)
    reference = event.involved_object
    assert (reference.api_version, reference.kind, reference.name, reference.uid) == ("v1", "Pod", "p", "uid-p")
    assert event.metadata.namespace == "team" and event.metadata.name.startswith("p.")
    assert (event.type, event.source.component, event.count) == ("Warning", "unisono", 1)
    await events.close()


async def test_equal_events_are_one_with_a_count() -> None:
    client = MemoryClient()
    events = recorder(client)
    for _ in range(3):
        events.event(pod(), "Normal", "Scheduled", "on n1")
    await settle()
    await client.clock.advance(10)
    events.event(pod(), "Normal", "Scheduled", "on n1")
    events.event(pod(), "Normal", "Scheduled", "on n2")
    await settle()
    assert sorted(summary(event) for event in client.objects(EVENTS)) == [
        ("Scheduled", "on n1", 4),
        ("Scheduled", "on n2", 1),
    ]
    first = next(event for event in client.objects(EVENTS) if event.message == "on n1")
    assert first.first_timestamp == "2023-11-14T22:13:20Z" and first.last_timestamp == "2023-11-14T22:13:30Z"
    assert len(client.writes) == 3
    await events.close()


async def test_an_expired_event_starts_again() -> None:
    client = MemoryClient()
    events = recorder(client)
    events.event(pod(), "Normal", "Scheduled", "on n1")
    await settle()
    client.remove(EVENTS, client.objects(EVENTS)[0].key)
    events.event(pod(), "Normal", "Scheduled", "on n1")
    await settle()
    assert [event.count for event in client.objects(EVENTS)] == [1]
    await events.close()


async def test_a_full_buffer_and_a_noisy_object_drop_and_count() -> None:
    client = MemoryClient()

    def refuse(*_: str) -> None:
        raise Unavailable("later")

    client.interceptor = refuse
    events = recorder(client, buffer=5)
    for number in range(8):
        events.event(pod(f"p{number}"), "Normal", "Scheduled", "x")
    assert events.statistics().waiting == 5
    assert events.statistics().dropped == 3
    client.interceptor = None
    await client.clock.advance(30)
    assert events.statistics().written == 5
    for number in range(40):
        events.event(pod("noisy"), "Normal", "Scheduled", f"message {number}")
        await settle()
    assert events.statistics().dropped == 3 + 15
    await client.clock.advance(301)
    events.event(pod("noisy"), "Normal", "Scheduled", "after a while")
    await settle()
    assert any(event.message == "after a while" for event in client.objects(EVENTS))
    await events.close()


async def test_a_refused_event_is_dropped_and_nobody_fails() -> None:
    client = MemoryClient()

    def forbid(*_: str) -> None:
        raise ApiError("the namespace is terminating", code=403, reason="Forbidden")

    client.interceptor = forbid
    events = recorder(client)
    events.event(pod(), "Normal", "Scheduled", "x")
    await settle()
    assert (events.statistics().dropped, events.statistics().waiting) == (1, 0)
    await events.close()


async def test_close_gives_up_after_its_time() -> None:
    import asyncio

    client = MemoryClient()

    def refuse(*_: str) -> None:
        raise Unavailable("later")

    client.interceptor = refuse
    events = recorder(client)
    events.event(pod(), "Normal", "Scheduled", "x")
    closing = asyncio.create_task(events.close(timeout=1.0))
    await client.clock.advance(1.1)
    assert closing.done()
    events.event(pod(), "Normal", "Scheduled", "late")
    assert events.statistics().dropped == 2


async def test_in_a_rush_good_news_is_cut_short_and_warnings_are_not() -> None:
    client = MemoryClient()
    events = EventRecorder(client, "unisono", clock=client.clock, normal_burst=10, normal_per_second=5.0)
    for number in range(100):
        events.event(pod(f"p{number}"), "Normal", "Scheduled", "on n1")
        events.event(pod(f"p{number}"), "Warning", "FailedScheduling", "no room")
    await settle(1000)
    reasons = [event.reason for event in client.objects(EVENTS)]
    assert reasons.count("FailedScheduling") == 100
    assert reasons.count("Scheduled") == 10
    assert events.statistics().dropped == 90
    await client.clock.advance(2)
    for number in range(100):
        events.event(pod(f"q{number}"), "Normal", "Scheduled", "on n1")
    await settle(1000)
    assert [event.reason for event in client.objects(EVENTS)].count("Scheduled") == 20
    await events.close()
