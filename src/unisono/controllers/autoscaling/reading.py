"""What the triggers of ScaledObjects say: asked in the background, so that a slow server delays nothing else.

A look at a trigger has its server asked, and is repeated when that has answered. Queries of one namespace wait for each
other, never for those of another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakValueDictionary

from unisono.api import keda
from unisono.controllers.metrics import MetricError, MetricReader

_FRESH_SECONDS = 10.0
_AT_ONCE = 4
"""Queries of one namespace that are under way."""

Place = tuple[str, int | str]
"""Key of a ScaledObject and number of its trigger, or key of an autoscaler and name of its metric."""


@dataclass(frozen=True, slots=True)
class TriggerQuestion:
    """What a server is asked: a query to Prometheus, or the length of a list of Redis."""

    server: str
    text: str
    redis: tuple[str, int, int] | None = None
    """Host, port and database."""

    async def ask(self, reader: MetricReader) -> float | None:
        """The answer."""
        if self.redis is not None:
            return await reader.redis_length(*self.redis, self.text)
        return await reader.prometheus(self.server, self.text)


def question_of(trigger: keda.ScaleTrigger) -> TriggerQuestion:
    """What a trigger without mistakes asks."""
    given = trigger.metadata
    if trigger.type == keda.REDIS:
        host, port = keda.redis_address(given) or ("", 0)
        return TriggerQuestion(
            f"{host}:{port}", given["listName"], (host, port, int(keda.number(given.get("databaseIndex", "")) or 0))
        )
    return TriggerQuestion(given["serverAddress"], given["query"])


class NotKnownYet(MetricError):
    """A trigger's server has been asked and has not answered."""


@dataclass(slots=True)
class _Answer:
    question: TriggerQuestion
    at: float
    value: float | None = None
    error: str = ""
    failures: int = 0


def metric_name(at: int, trigger: keda.ScaleTrigger) -> str:
    """The name of a trigger's metric, as KEDA makes it."""
    return f"s{at}-{trigger.type}"


def by_resource(trigger: keda.ScaleTrigger) -> bool:
    """Its metric is the use of a resource, which the autoscaler knows by itself."""
    return trigger.type in (keda.CPU, keda.MEMORY)


class Triggers:
    """Asks triggers; all controllers of autoscaling share one."""

    def __init__(self, reader: MetricReader) -> None:
        self._reader = reader
        self._answers: dict[Place, _Answer] = {}
        self._asking: dict[Place, asyncio.Task[None]] = {}
        self._waiting: dict[Place, list[Callable[[], None]]] = {}
        # A gate goes with the last query of its namespace.
        self._gates: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def read(self, scaled: keda.ScaledObject, at: int, now: float, again: Callable[[], None]) -> keda.Reading:
        """What one trigger says; where it has failed too often in a row, what the fallback makes of it.

        Args:
            scaled: the ScaledObject.
            at: number of the trigger.
            now: seconds since 1970.
            again: is called when the server has answered.

        Raises:
            NotKnownYet: it will be known when ``again`` is called.
            MetricError: it says nothing.
        """
        trigger = scaled.spec.triggers[at]
        wrong = next(keda.mistakes(trigger, "trigger"), None)
        if wrong is not None:
            raise MetricError(wrong.message())
        if trigger.type == keda.CRON:
            return keda.of_cron(trigger.metadata, now)
        if trigger.type not in (keda.PROMETHEUS, keda.REDIS):
            raise MetricError(f"a trigger of type {trigger.type} has no metric of its own")
        answer = self._answer((scaled.key, at), scaled.metadata.namespace or "", question_of(trigger), now, again)
        error = answer.error or self._lack(trigger, answer)
        if not error:
            return keda.of_metric(trigger, answer.value or 0.0)
        if self.falls_back(scaled):
            return self._instead(scaled, trigger)
        raise MetricError(error)

    def query(self, key: str, name: str, question: TriggerQuestion, now: float, again: Callable[[], None]) -> float:
        """The value of a metric that an autoscaler asks for by itself; no series is 0.

        Args:
            key: of the autoscaler.
            name: of the metric.
            question: what is asked.
            now: seconds since 1970.
            again: is called when the server has answered.

        Raises:
            NotKnownYet: it will be known when ``again`` is called.
            MetricError: there is no value.
        """
        answer = self._answer((f"autoscaler {key}", name), key.partition("/")[0], question, now, again)
        if answer.error:
            raise MetricError(answer.error)
        return answer.value or 0.0

    def _answer(
        self, place: Place, namespace: str, question: TriggerQuestion, now: float, again: Callable[[], None]
    ) -> _Answer:
        """What the server has said lately; else it is asked."""
        answer = self._answers.get(place)
        if answer is None or answer.question != question or now - answer.at >= _FRESH_SECONDS:
            self._ask(place, namespace, question, now, again)
            raise NotKnownYet(f"{question.server} has not answered yet")
        return answer

    def falls_back(self, scaled: keda.ScaledObject) -> bool:
        """Whether a trigger has failed more often in a row than its ScaledObject accepts."""
        fallback = scaled.spec.fallback
        if fallback is None or not fallback.failure_threshold:
            return False
        answers = (self._answers.get((scaled.key, at)) for at in range(len(scaled.spec.triggers)))
        return any(answer is not None and answer.failures > fallback.failure_threshold for answer in answers)

    def forget(self, key: str) -> None:
        """The ScaledObject is gone."""
        for place in [place for place in self._answers if place[0] == key]:
            del self._answers[place]

    def forget_autoscaler(self, key: str) -> None:
        """The autoscaler is gone."""
        self.forget(f"autoscaler {key}")

    def _ask(
        self, place: Place, namespace: str, question: TriggerQuestion, now: float, again: Callable[[], None]
    ) -> None:
        self._waiting.setdefault(place, []).append(again)
        if place in self._asking:
            return
        gate = self._gates.get(namespace) or asyncio.Semaphore(_AT_ONCE)
        self._gates[namespace] = gate

        async def ask() -> None:
            before = self._answers.get(place)
            failed = before.failures if before is not None and before.question == question else 0
            answer = _Answer(question, now)
            try:
                async with gate:
                    answer.value = await question.ask(self._reader)
            except MetricError as error:
                answer.error, answer.failures = str(error), failed + 1
            finally:
                self._asking.pop(place, None)
            self._answers[place] = answer
            for each in self._waiting.pop(place, ()):
                each()

        self._asking[place] = asyncio.create_task(ask())

    @staticmethod
    def _lack(trigger: keda.ScaleTrigger, answer: _Answer) -> str:
        """No series is 0, unless the trigger says otherwise."""
        if answer.value is not None or trigger.metadata.get("ignoreNullValues", "true") == "true":
            return ""
        return f"{answer.question.server} has no series for {answer.question.text}"

    @staticmethod
    def _instead(scaled: keda.ScaledObject, trigger: keda.ScaleTrigger) -> keda.Reading:
        """As much of the metric as makes the fallback's replicas."""
        reading = keda.of_metric(trigger, 0.0)
        replicas = scaled.spec.fallback.replicas if scaled.spec.fallback else 0
        return keda.Reading(replicas * reading.target, reading.target, replicas > 0)
