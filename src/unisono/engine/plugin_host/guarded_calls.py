"""The guarded call: every question to a plug-in goes through it.

What a plug-in raises, or answers against its hook's contract, becomes the answer that the hook's policy
(`failure_policies`) has for it, for what was asked about and for nothing else. The plug-in stays on for everything
else. About what it has failed for it is not asked again in the same cycle.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unisono.engine.answers import Failure, Scope
from unisono.engine.plugin_host.failure_policies import OUT, POLICIES, QUERIES, About, Fails, Policy, told
from unisono.engine.plugin_host.stopwatch import Stopwatch, TooSlow, is_hosted

if TYPE_CHECKING:
    from unisono.cluster.podclass import PodClass
    from unisono.cluster.records import Task
    from unisono.engine.contract.plugin import Plugin
    from unisono.engine.session.job_state import JobState
    from unisono.engine.session.session import Session

Method = Callable[..., Any]
_SINGLE = ("filter_at", "score_at")
"""Asked after each placement; where a built-in plug-in fails in one of them, the table asks the vector hook."""
Key = Any
Subject = tuple[About, Key]

_ONE = (About.JOB, About.QUEUE, About.TASK, About.GROUP)
_SEVERAL = ("victim_queue_key", "victim_jobs", "enqueued_alike", "domain_gradients", "annotations", "preparations")
"""Asked with more arguments than what they are about."""
_ASKED_OF_ONE = frozenset(
    (*QUERIES, *(hook for hook, policy in POLICIES.items() if policy.about in _ONE and hook not in _SEVERAL))
)


class Guard:
    """The guarded calls of one session.

    Attributes:
        session: of the cycle, once it is open.
        failures: what failed, each plug-in, hook and subject once.
        closed: failures for which something was refused, by what was refused.
        out: jobs that are not admitted or placed in this cycle because a plug-in failed to follow them.
        stays: pods that are not evicted in this cycle, because a plug-in failed when it was asked about them.
        instead: how often an answer was given in place of a plug-in's.
    """

    def __init__(self, stopwatch: Stopwatch) -> None:
        self.stopwatch = stopwatch
        self.session: Session | None = None
        self.failures: list[Failure] = []
        self.closed: dict[Subject, Failure] = {}
        self.out: dict[str, Failure] = {}
        self.stays: set[str] = set()
        self.instead = 0
        self._dead: dict[Plugin, str] = {}
        self._known: dict[tuple[Plugin, str], dict[Key, Failure]] = {}

    # ---- calls

    def call(self, plugin: Plugin, hook: str) -> Method:
        """The plug-in's method, guarded."""
        policy = POLICIES[hook]
        if self._dead and plugin in self._dead:
            return lambda *arguments, **_: self._answer_for_dead(plugin, hook, policy, arguments)
        hosted = is_hosted(plugin)
        method = self.stopwatch.watched(plugin, hook)
        if not hosted and hook in _SINGLE:
            return method
        family = "placed" if hook == "removed" else hook
        failures = self._known.setdefault((plugin, family), {})
        if not hosted and not policy.everywhere:
            return self._plain(plugin, hook, policy, method, failures)
        return self._checked(
            plugin, hook, policy, method, failures, timed=hosted and self.stopwatch.monotonic is not None
        )

    def each(self, plugin: Plugin, hook: str, guarded: Method, items: Sequence[Any]) -> list[Any]:
        """The answers of an order about each of many items; ``guarded`` is the plug-in's guarded method.

        A built-in plug-in is asked about all of them behind one guard. If it fails, or has failed before, each item
        has a guard of its own, so that only the items that it fails for pay.
        """
        trusted = plugin not in self._dead and not is_hosted(plugin) and not POLICIES[hook].everywhere
        if trusted and not self._known.get((plugin, hook)):
            try:
                return list(map(self.stopwatch.watched(plugin, hook), items))
            except BaseException as error:
                let_users_interrupt(error)
        return list(map(guarded, items))

    def _plain(self, plugin: Plugin, hook: str, policy: Policy, method: Method, known: dict[Key, Failure]) -> Method:
        """A hook of a built-in plug-in whose answers are of the right type, as the type checker knows."""
        if hook in _ASKED_OF_ONE:

            def guarded_one(about: Any) -> Any:
                if known and (failure := known.get(self._key(plugin, policy, (about,)))) is not None:
                    return self._instead(plugin, policy, failure, (about,))
                try:
                    return method(about)
                except BaseException as error:
                    return self._failed(plugin, hook, policy, (about,), error, known)

            return guarded_one

        def guarded(*arguments: Any, **named: Any) -> Any:
            if known and (failure := known.get(self._key(plugin, policy, arguments))) is not None:
                return self._instead(plugin, policy, failure, arguments)
            try:
                return method(*arguments, **named)
            except BaseException as error:
                return self._failed(plugin, hook, policy, arguments, error, known)

        return guarded

    def _checked(
        self, plugin: Plugin, hook: str, policy: Policy, method: Method, known: dict[Key, Failure], *, timed: bool
    ) -> Method:
        check = policy.check
        if not timed and policy.candidates < 0:
            return self._checked_plainly(plugin, hook, policy, method, known)

        def untimed(*arguments: Any, **named: Any) -> Any:
            return check(method(*arguments, **named), arguments, self.session)  # type: ignore[arg-type]

        def measured(*arguments: Any, **named: Any) -> Any:
            budget, subject = self.stopwatch.budget(plugin), (policy.about, self._key(plugin, policy, arguments))
            budget.admit(subject)
            started = budget.clock()
            try:
                return untimed(*arguments, **named)
            finally:
                budget.spend(subject, budget.clock() - started)

        once = measured if timed else untimed

        def guarded(*arguments: Any, **named: Any) -> Any:
            if known:
                if policy.candidates >= 0:
                    return self._sifted(plugin, hook, policy, once, known, arguments)
                if (failure := known.get(self._key(plugin, policy, arguments))) is not None:
                    return self._instead(plugin, policy, failure, arguments)
            try:
                return once(*arguments, **named)
            except BaseException as error:
                let_users_interrupt(error)
                if policy.candidates >= 0 and not isinstance(error, TooSlow):
                    self._try_each(plugin, hook, policy, once, known, arguments)
                    if known:
                        return self._sifted(plugin, hook, policy, once, known, arguments)
                return self._failed(plugin, hook, policy, arguments, error, known)

        return guarded

    def _checked_plainly(
        self, plugin: Plugin, hook: str, policy: Policy, method: Method, known: dict[Key, Failure]
    ) -> Method:
        """A hook whose answers are checked; it has no candidates, and its time is not limited."""
        check = policy.check

        def guarded(*arguments: Any, **named: Any) -> Any:
            if known and (failure := known.get(self._key(plugin, policy, arguments))) is not None:
                return self._instead(plugin, policy, failure, arguments)
            try:
                return check(method(*arguments, **named), arguments, self.session)  # type: ignore[arg-type]
            except BaseException as error:
                return self._failed(plugin, hook, policy, arguments, error, known)

        return guarded

    # ---- candidates, each of which is judged by itself

    def _try_each(
        self,
        plugin: Plugin,
        hook: str,
        policy: Policy,
        once: Method,
        known: dict[Key, Failure],
        arguments: Sequence[Any],
    ) -> None:
        """Find the candidates about which the plug-in fails even when it is asked about them alone."""
        for task in arguments[policy.candidates]:
            if task.key in known:
                continue
            try:
                once(*_with(arguments, policy.candidates, [task]))
            except TooSlow:
                return
            except BaseException as error:
                let_users_interrupt(error)
                known[task.key] = failure = self._note(plugin, hook, policy, f"pod {task.key}", error)
                if failure.closed:
                    self.stays.add(task.key)

    def _sifted(
        self,
        plugin: Plugin,
        hook: str,
        policy: Policy,
        once: Method,
        known: dict[Key, Failure],
        arguments: Sequence[Any],
    ) -> Any:
        """Ask without the candidates about which the plug-in has failed; they stay where they are."""
        candidates: Sequence[Task] = arguments[policy.candidates]
        sound = np.array([task.key not in known for task in candidates], dtype=np.bool_)
        kept = [task for task, yes in zip(candidates, sound.tolist(), strict=True) if yes]
        try:
            answer = once(*_with(arguments, policy.candidates, kept)) if kept else None
        except BaseException as error:
            return self._failed(plugin, hook, policy, tuple(arguments), error, {})
        if len(kept) == len(candidates):
            return answer
        self.instead += 1
        if plugin.ignorable:
            mask = np.zeros(len(candidates), dtype=np.bool_)
        else:
            mask = policy.instead(next(iter(known.values())), tuple(arguments))
        if answer is None:
            if hook == "victims":  # a mask would be a vote for the others; `stays` keeps those that failed
                return None
            answer = False
        mask[sound] = answer
        return mask

    # ---- failures

    def kill(self, plugin: Plugin, hook: str, error: BaseException) -> None:
        """Ask the plug-in nothing in this cycle: it cannot be built or opened; what it would refuse is refused."""
        if plugin not in self._dead:
            self._dead[plugin] = told(error)
            self.note_part(plugin, hook, error)

    def note_part(self, plugin: Plugin, part: str, error: BaseException) -> None:
        """Note that a part of the plug-in's life fails, such as ``open``."""
        let_users_interrupt(error)
        self.failures.append(Failure(plugin.config.name, part, "", told(error), closed=not plugin.ignorable))

    def dead(self, plugin: Plugin) -> bool:
        """Whether the plug-in is asked nothing in this cycle."""
        return plugin in self._dead

    def any_dead(self) -> bool:
        """Whether any plug-in is asked nothing in this cycle."""
        return bool(self._dead)

    def caught(self, plugin: Plugin, hook: str, pod_class: PodClass, error: BaseException) -> None:
        """Note an error of something that a hook has answered with."""
        policy = POLICIES[hook]
        self._failed(plugin, hook, policy, (pod_class,), error, self._known.setdefault((plugin, hook), {}))

    def _failed(
        self,
        plugin: Plugin,
        hook: str,
        policy: Policy,
        arguments: tuple[Any, ...],
        error: BaseException,
        known: dict[Key, Failure],
    ) -> Any:
        let_users_interrupt(error)
        failure = self._note(plugin, hook, policy, self._subject(policy, arguments), error)
        known[self._key(plugin, policy, arguments)] = failure
        return self._instead(plugin, policy, failure, arguments)

    def _note(self, plugin: Plugin, hook: str, policy: Policy, subject: str, error: BaseException) -> Failure:
        closed = policy.fails is Fails.CLOSED and not plugin.ignorable
        failure = Failure(plugin.config.name, hook, subject, told(error), closed)
        self.failures.append(failure)
        return failure

    def _answer_for_dead(self, plugin: Plugin, hook: str, policy: Policy, arguments: tuple[Any, ...]) -> Any:
        closed = policy.fails is Fails.CLOSED and not plugin.ignorable
        subject = self._subject(policy, arguments) if closed else ""
        failure = Failure(plugin.config.name, hook, subject, self._dead[plugin], closed)
        return self._instead(plugin, policy, failure, arguments)

    def _instead(self, plugin: Plugin, policy: Policy, failure: Failure, arguments: tuple[Any, ...]) -> Any:
        self.instead += 1
        if failure.closed:
            self._close(plugin, policy, failure, arguments)
        elif policy.fails is Fails.CLOSED:
            return policy.neutral
        return policy.instead(failure, arguments)

    def _close(self, plugin: Plugin, policy: Policy, failure: Failure, arguments: tuple[Any, ...]) -> None:
        """Remember what was refused, for verdicts."""
        for subject in self._refused(plugin, policy, arguments):
            self.closed.setdefault(subject, failure)
            if failure.hook in OUT and subject[0] is About.JOB:
                self.out.setdefault(subject[1], failure)

    def _refused(self, plugin: Plugin, policy: Policy, arguments: tuple[Any, ...]) -> list[Subject]:
        about, first = policy.about, arguments[0]
        if about is About.JOB or about is About.PLACEMENT:
            return [(About.JOB, first.key)]
        if about is About.CANDIDATES:
            return [(About.JOB, first.key)] if policy.candidates else []
        if about is About.TASK:
            return [(About.JOB, first.job)]
        if about is About.GROUP:
            return [(About.JOB, first.job.key)]
        if about is About.SHARE:
            return [(About.SHARE, (first.name, each.id)) for each in _classes(arguments[1])]
        if about is About.PODS:
            return [(About.PODS, self._key(plugin, policy, arguments))]
        return [(About.QUEUE, first.name)]

    def _key(self, plugin: Plugin, policy: Policy, arguments: Sequence[Any]) -> Key:
        """What the hook was asked about, in a form that compares."""
        about, first = policy.about, arguments[0]
        if about is About.JOB:
            return first.key
        if about is About.QUEUE:
            return first.name
        if about is About.SHARE:
            return first.name, tuple(each.id for each in _classes(arguments[1]))
        if about is About.PODS:
            return first.id, self._scope(plugin)
        if about is About.PLACEMENT:
            return first.key, _places(arguments)
        if about is About.TASKS:
            return tuple(task.key for task in first)
        if about is About.CANDIDATES:
            return (first.key, len(arguments)) if policy.candidates else "all"
        return first.key

    def _scope(self, plugin: Plugin) -> str:
        subject = self.session.subject if self.session is not None else None
        if plugin.scope is Scope.CLASS or subject is None:
            return ""
        return subject.key if plugin.scope is Scope.JOB else subject.queue.name

    def _subject(self, policy: Policy, arguments: Sequence[Any]) -> str:
        """What the hook was asked about, in words."""
        about, first = policy.about, arguments[0]
        if about is About.JOB or about is About.PLACEMENT:
            return f"job {first.key}"
        if about is About.GROUP:
            return f"job {first.job.key}"
        if about is About.QUEUE:
            return f"queue {first.name}"
        if about is About.SHARE:
            return f"queue {first.name}{self._example(_classes(arguments[1]))}"
        if about is About.TASK:
            return f"pod {first.key}"
        if about is About.PODS:
            return f"pods{self._example([first])}"
        if about is About.CANDIDATES and policy.candidates:
            return f"the victims of job {first.key}"
        return f"{len(arguments[policy.candidates if about is About.CANDIDATES else 0])} pods"

    def _example(self, classes: Sequence[PodClass]) -> str:
        """A waiting job with pods of one of these classes."""
        if self.session is None:
            return ""
        ids = {each.id for each in classes}
        for job in self.session.active:
            if any({task.pod_class.id, task.pod_class.base.id} & ids for task in job.record.pending.values()):
                return f" of job {job.key}"
        return ""

    def failure_of(self, job: JobState) -> Failure | None:
        """The first failure for which something that the job needs was refused."""
        if not self.closed:
            return None
        subjects: list[Subject] = [(About.JOB, job.key), (About.QUEUE, job.queue.name)]
        classes = {each.id for task in job.record.pending.values() for each in (task.pod_class, task.pod_class.base)}
        for number in sorted(classes):
            subjects.append((About.SHARE, (job.queue.name, number)))
            subjects += [(About.PODS, (number, scope)) for scope in ("", job.queue.name, job.key)]
        return next((self.closed[subject] for subject in subjects if subject in self.closed), None)


def _classes(found: Any) -> Sequence[PodClass]:
    return found if isinstance(found, Sequence) else (found,)


def _places(arguments: Sequence[Any]) -> tuple[Any, ...]:
    """The pods that ``moved`` tells of, or the nodes of ``placed`` and ``removed``: undoing has the same."""
    tasks, nodes = arguments[1], arguments[2]
    return tuple(task.key for task in tasks) if isinstance(tasks, Sequence) else (tasks.id, *nodes)


def _with(arguments: Sequence[Any], position: int, value: Any) -> tuple[Any, ...]:
    return (*arguments[:position], value, *arguments[position + 1 :])


def let_users_interrupt(error: BaseException) -> None:
    """Ctrl-C in a program that does not handle it ends the program; raised by a plug-in elsewhere it is a failure."""
    if isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        raise error
