"""The deliberate faults: each a few changed characters of a module or two, and the kind of worlds that finds it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """``old``, which the module contains once, becomes ``new``.

    Attributes:
        kind: of the worlds that find it (``world_profiles``), by at least half of their seeds.
        more: further changes of the same kind, where two layers hold one rule: module, old and new.
        hidden: why no world can find it, or has not.

    """

    name: str
    kind: str
    module: str
    old: str
    new: str
    more: tuple[tuple[str, str, str], ...] = ()
    hidden: str = ""

    @property
    def changes(self) -> dict[str, list[tuple[str, str]]]:
        """By module, the texts that become others."""
        found: dict[str, list[tuple[str, str]]] = {}
        for module, old, new in ((self.module, self.old, self.new), *self.more):
            found.setdefault(module, []).append((old, new))
        return found


FAULTS = (
    Fault(
        "drop-an-fsync",
        "disk",
        "unisono.apiserver.storage.database",
        '"PRAGMA synchronous = FULL"',
        '"PRAGMA synchronous = OFF"',
    ),
    Fault(
        "answer-before-the-commit",
        "disk",
        "unisono.apiserver.storage.store",
        "        self._writer.submit(Commit(self._epoch, events, done))\n",
        "        self._writer.submit(Commit(self._epoch, events, done))\n        done(None)\n",
    ),
    Fault(
        "keep-pending-what-failed",
        "disk",
        "unisono.apiserver.storage.store",
        "            self._pending.clear()\n",
        "            pass\n",
    ),
    Fault(
        "commit-what-builds-on-a-failure",
        "disk",
        "unisono.apiserver.storage.store",
        "if commit.epoch <= self._failed_epoch]",
        "if commit.epoch <= -2]",
        more=(
            (
                "unisono.apiserver.storage.store",
                "if commit.epoch > self._failed_epoch]",
                "if commit.epoch > -2]",
            ),
        ),
    ),
    Fault(
        "tell-nobody-that-history-is-gone",
        "watches",
        "unisono.apiserver.storage.objects",
        "        if revision < self.compacted:\n            return None\n",
        "",
    ),
    Fault(
        "watch-from-one-later-than-the-list",
        "watches",
        "unisono.kube.reflector",
        "        self._resource_version = resource_version\n        self._sink.replace",
        "        self._resource_version = str(int(resource_version) + 2)\n        self._sink.replace",
    ),
    Fault(
        "forget-what-was-deleted-between-two-lists",
        "watches",
        "unisono.kube.informer",
        "            self._remove(key, self._objects[key])\n        for key, obj in listed.items()",
        "            pass\n        for key, obj in listed.items()",
    ),
    Fault(
        "lose-a-key-that-is-in-work",
        "controllers",
        "unisono.kube.workqueue",
        "        if key in self._dirty and not self._closed:\n            self._push(key)\n",
        "        self._dirty.discard(key)\n",
    ),
    Fault(
        "take-a-lease-that-is-not-over",
        "leaders",
        "unisono.kube.leader",
        "        return now - self._seen[1] >= duration\n",
        "        return now - self._seen[1] >= 0.0\n",
    ),
    Fault(
        "lead-for-ever",
        "leaders",
        "unisono.kube.leader",
        "        return self._clock.monotonic() < self._valid_until\n",
        "        return self._valid_until > 0\n",
    ),
    Fault(
        "bind-without-assuming",
        "binds",
        "unisono.scheduler.binder",
        '                self._feed.state.assume(f"{bind.namespace}/{bind.pod}", bind.node, bind.annotations)\n',
        "",
    ),
    Fault(
        "forget-the-rollback-of-a-failed-bind",
        "binds",
        "unisono.scheduler.binder",
        '            self._feed.do(partial(self._feed.state.forget, f"{bind.namespace}/{bind.pod}"))\n',
        "            pass\n",
    ),
    Fault(
        "take-a-conflict-for-a-success",
        "binds",
        "unisono.scheduler.binder",
        "            except (NotFound, Conflict) as error:\n                why = str(error)\n"
        "                wait = 0.0\n",
        "            except (NotFound, Conflict):\n                return Outcome.BOUND, ''\n",
    ),
    Fault(
        "take-a-lost-answer-for-a-failure",
        "binds",
        "unisono.scheduler.binder",
        "                why = str(error)\n                wait = getattr",
        "                return Outcome.FAILED, str(error)\n                wait = getattr",
    ),
    Fault(
        "never-give-a-part-of-a-gang-back",
        "gangs",
        "unisono.scheduler.evictor",
        "            if now - since < self.patience or busy(key):\n",
        "            if True:\n",
        hidden="needs a part of a gang that is bound and not started for minutes",
    ),
    Fault(
        "forget-a-victim-that-stands",
        "evictions",
        "unisono.scheduler.evictor",
        "        self._feed.do(partial(self._feed.state.keep, key))\n",
        "",
    ),
    Fault(
        "count-a-pod-twice",
        "binds",
        "unisono.cluster.state",
        "            if old is not None:\n                self._take_out(old)\n            self._put_in(task)\n",
        "            if old is not None:\n                self._take_out(old)\n            self._put_in(task)\n"
        "            if task.node and old is not None:\n                self._occupy(task, 1)\n",
    ),
    Fault(
        "free-a-node-before-the-pod-is-gone",
        "evictions",
        "unisono.cluster.state",
        "        releasing = task.status is TaskStatus.RELEASING\n",
        "        releasing = False\n        if task.status is TaskStatus.RELEASING:\n            return\n",
    ),
    Fault(
        "bind-gangs-in-part",
        "gangs",
        "unisono.engine.plugins.gang",
        "        if not job.is_ready or (job.min_task_member and any(_short_roles(job, READY_STATES))):\n"
        "            return False\n",
        "        return True\n",
    ),
    Fault(
        "forget-a-queue's-limit",
        "limits",
        "unisono.engine.plugins.capacity.plugin",
        "        for branch in self.branches[queue.name].chain():\n            refusal = self._over(branch, request)\n",
        "        for branch in []:\n            refusal = self._over(branch, request)\n",
        more=(
            (
                "unisono.engine.plugins.capacity.plugin",
                "        for row, need in self._demand(pod_class):\n            room = min(room, *(",
                "        for row, need in []:\n            room = min(room, *(",
            ),
            (
                "unisono.engine.session.queue_limits",
                "    limits = limits_of(snapshot, snapshot.registry)\n    if not limits:\n",
                "    limits = limits_of(snapshot, snapshot.registry)\n    if True:\n",
            ),
        ),
    ),
    Fault(
        "forget-a-user's-limit-in-growth",
        "limits",
        "unisono.engine.session.limit",
        "        least = UNLIMITED\n",
        "        return UNLIMITED\n        least = UNLIMITED\n",
    ),
    Fault(
        "forget-in-a-limit-what-a-cycle-has-placed",
        "limits",
        "unisono.engine.session.limit",
        "        self.held += amounts\n",
        "        pass\n",
    ),
    Fault(
        "forget-a-rollback-in-a-cycle",
        "gangs",
        "unisono.engine.cycle.transaction",
        "            for column in placement.columns:\n                session.matrix[:, column] -= change\n"
        "        session.touched.extend(placement.columns)\n        self._take_effect(placement, placement.status",
        "            pass\n        self._take_effect(placement, placement.status",
    ),
    Fault(
        "leave-pods-on-a-node-that-is-gone",
        "machines",
        "unisono.controllers.nodes",
        "        for pod in pods:\n            try:\n                await self._remove(pod)\n",
        "        for pod in pods:\n            try:\n                pass\n",
    ),
    Fault(
        "bind-a-pod-that-is-bound",
        "binds",
        "unisono.apiserver.operations.subresources",
        "    if pod.spec.node_name:\n",
        "    if False:\n",
    ),
    Fault(
        "write-counts-without-end",
        "controllers",
        "unisono.controllers.queue",
        "        plan = decide(queue, parent, self._groups.by_index(GROUP_INDEX, key), commands)\n",
        "        plan = decide(queue, parent, self._groups.by_index(GROUP_INDEX, key), commands)\n"
        "        plan.patch = {'metadata': {'annotations': {'seen': str(self._clock.time())}}}\n",
    ),
    Fault(
        "leave-orphans",
        "controllers",
        "unisono.apiserver.housekeeping.gc",
        '        lost = {uid for uid, state in states.items() if state != "alive"}\n',
        "        lost: set[str] = set()\n",
    ),
    Fault(
        "collect-what-has-an-owner",
        "controllers",
        "unisono.apiserver.housekeeping.gc",
        '        lost = {uid for uid, state in states.items() if state != "alive"}\n',
        "        lost = set(states)\n",
    ),
    Fault(
        "let-a-stale-change-in",
        "controllers",
        "unisono.apiserver.operations.strategy",
        "if meta.resource_version and meta.resource_version != before.resource_version:",
        "if False:",
    ),
    Fault(
        "begin-again-with-an-older-revision",
        "disk",
        "unisono.apiserver.storage.store",
        "        self._revision = self._assigned = loaded.revision\n",
        "        self._revision = self._assigned = max(0, loaded.revision - 2)\n",
        hidden="the data file has a unique key of revisions, which refuses it",
    ),
    Fault(
        "lose-a-deletion",
        "watches",
        "unisono.kube.informer",
        "            self._remove(obj.key, obj)\n        else:",
        "            pass\n        else:",
    ),
    Fault(
        "skip-a-fence",
        "leaders",
        "unisono.kube.leader",
        "        if name in self._READS:\n",
        "        if name:\n",
    ),
    Fault(
        "make-no-pod-a-second-time",
        "controllers",
        "unisono.controllers.job.sync",
        "        missing = _missing(view, pods, seen.expected)\n",
        "        missing = _missing(view, pods, seen.expected) if not pods else iter(())\n",
    ),
    Fault(
        "keep-pods-beyond-the-size",
        "controllers",
        "unisono.controllers.job.decide",
        "[pod.pod for pod in self.pods if not pod.deleting and self._doomed(pod, state)]",
        "[]",
    ),
    Fault(
        "forget-to-come-back-for-a-finished-job",
        "controllers",
        "unisono.controllers.cronjob.controller",
        "                return due - self._clock.time()\n",
        "                return None\n",
    ),
    Fault(
        "forget-when-a-pod-ends",
        "machines",
        "unisono.agent.simulated.nodes",
        "                self._alarms.at(end, key)\n",
        "                pass\n",
    ),
    Fault(
        "never-finish-a-deleted-pod",
        "machines",
        "unisono.agent.simulated.nodes",
        "            await self._finish(pod)\n",
        "            pass\n",
    ),
    Fault(
        "number-two-changes-alike",
        "disk",
        "unisono.apiserver.storage.store",
        "        self._assigned += 1\n",
        "        self._assigned = self._revision + 1\n",
    ),
    Fault(
        "ask-again-for-what-was-heard",
        "watches",
        "unisono.kube.reflector",
        "        self._resource_version = event.object.metadata.resource_version or self._resource_version\n",
        "        self._resource_version = self._resource_version or event.object.metadata.resource_version\n",
    ),
    Fault(
        "remove-what-has-finalizers",
        "controllers",
        "unisono.apiserver.operations.deletion",
        "or meta.finalizers or meta.deletion_grace_period_seconds",
        "or meta.deletion_grace_period_seconds",
    ),
    Fault(
        "ignore-a-budget",
        "evictions",
        "unisono.scheduler.evictor",
        '        if action != RUN_TIME and self._has_budget(f"{namespace}/{name}"):  # as with a deadline of its own\n',
        "        if False:\n",
        more=(
            (
                "unisono.engine.plugins.protected_pods",
                "            if all(spent[key] < self.allowed[key] for key in keys):\n",
                "            if True:\n",
            ),
        ),
    ),
    Fault(
        "forget-a-host-port",
        "binds",
        "unisono.cluster.state",
        "                self.port_holders.setdefault(task.node, {})[task.key] = task.pod_class\n",
        "                pass\n",
    ),
    Fault(
        "admit-beyond-the-capability",
        "limits",
        "unisono.engine.plugins.capacity.plugin",
        "            short = exceeded(taken, request, branch.admission)\n",
        "            short = []\n",
    ),
    Fault(
        "forget-that-a-node-was-deleted",
        "machines",
        "unisono.cluster.state",
        "    def _remove_node(self, name: str) -> bool:\n",
        "    def _remove_node(self, name: str) -> bool:\n        return False\n",
    ),
    Fault(
        "never-give-a-quota-back",
        "limits",
        "unisono.apiserver.admission.quotas",
        "            left = used_before if entry is not None and counts(quota, before) else {}\n",
        "            left = {}\n",
    ),
    Fault(
        "evict-below-the-minimum-of-a-gang",
        "evictions",
        "unisono.engine.plugins.gang",
        "        if job.ready_count - taken[whole] <= job.min_member:\n            return False\n",
        "",
        more=(
            (
                "unisono.engine.plugins.gang",
                "        return np.asarray(jobs.spare > 0) if purpose",
                "        return np.asarray(jobs.spare > -99) if purpose",
            ),
        ),
        hidden="no rule judges gangs that were whole and lost a member",
    ),
    Fault(
        "forget-who-holds-a-card",
        "devices",
        "unisono.engine.plugins.deviceshare.book",
        "    def _take_up(self, task: Task, row: int, holds: Holds) -> None:\n",
        "    def _take_up(self, task: Task, row: int, holds: Holds) -> None:\n        return\n",
    ),
    Fault(
        "give-a-device-to-two-claims",
        "devices",
        "unisono.engine.plugins.predicates.device_inventory",
        "if unit.name not in self.book.taken]",
        "]",
    ),
    Fault(
        "leave-a-rack",
        "network",
        "unisono.engine.plugins.network_topology_aware.plugin",
        "        if limit is None:\n            return [[top]]\n        at = groups.at",
        "        if True:\n            return [[top]]\n        at = groups.at",
    ),
    Fault(
        "fall-back-from-what-is-refused",
        "reloads",
        "unisono.scheduler.settings",
        "        self._error = why\n",
        "        self._error, self._config = why, None\n",
    ),
    Fault(
        "keep-a-configuration-that-is-gone",
        "reloads",
        "unisono.scheduler.settings",
        "        if self._maps.pop(name, None) is not None:\n",
        "        if False:\n",
    ),
    Fault(
        "decide-with-the-first-configuration",
        "reloads",
        "unisono.scheduler.scheduler",
        "            decisions, version = await self._decide_on(config)\n",
        "            decisions, version = await self._decide_on(self._seen_config or config)\n"
        "            config = self._seen_config or config\n",
    ),
    Fault(
        "read-what-another-release-says",
        "reloads",
        "unisono.scheduler.settings",
        "if any_release else named\n",
        "\n",
    ),
    Fault(
        "offer-what-does-not-help",
        "answers",
        "unisono.engine.verdicts.advise",
        "                if trials.starts(self.key, change):\n",
        "                if True:\n",
    ),
    Fault(
        "leave-a-waiting-job-without-a-verdict",
        "answers",
        "unisono.engine.verdicts.advise",
        "    return {key: _finished(answered.get(key, draft), off) for key, draft in drafts.items()}\n",
        "    drafts.pop(turns[-1])\n"
        "    return {key: _finished(answered.get(key, draft), off) for key, draft in drafts.items()}\n",
    ),
    Fault(
        "go-to-any-kind-of-nodes",
        "choices",
        "unisono.engine.plugins.one_of",
        "        return (Veto(~self.choices.nodes(part.kind)[nodes.columns], not_of(part.kind.name)),)\n",
        "        return ()\n",
        more=(
            (
                "unisono.engine.closing.invariants",
                "    for placement in cycle.bound:\n        part = choices.part(",
                "    for placement in []:\n        part = choices.part(",
            ),
        ),
    ),
    Fault(
        "forget-who-holds-licences",
        "choices",
        "unisono.engine.session.floating",
        "        limit.held[row] = int(nodes.used[row].sum()) - leaving + floating.by_jobs\n",
        "        pass\n",
    ),
    Fault(
        "forget-what-whole-jobs-hold",
        "choices",
        "unisono.engine.session.floating",
        "        limit.held[row] = int(nodes.used[row].sum()) - leaving + floating.by_jobs\n",
        "        limit.held[row] = int(nodes.used[row].sum()) - leaving\n",
    ),
)
