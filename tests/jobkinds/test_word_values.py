"""Values of Unisono's own words: what cannot be read is told, and every key that people write has a rule."""

from __future__ import annotations

import pytest

from unisono.api import annotations as ours
from unisono.jobkinds.word_places import unreadable

READ = {
    ours.MIN_RUN_TIME: ("10m", "10"),
    ours.EVICT_NOTICE: ("2m", "two minutes"),
    ours.RETRY_ELSEWHERE: ("5m", "5"),
    ours.IDLE_AFTER: ("4h", "4 hours"),
    ours.ELASTIC_COOL_DOWN: ("5m", "5 min"),
    ours.RELOCATE_AFTER: ("5m", "5"),
    ours.RESERVE_TIMEOUT: ("5m", "soon"),
    ours.START_TIMEOUT: ("30m", "30"),
    ours.BIND_TIMEOUT: ("2m", "2"),
    ours.WORKER_LOST_TIMEOUT: ("5m", "5"),
    ours.RUN_SECONDS: ("3600", "1h"),
    ours.EXIT_CODE: ("3", "three"),
    ours.ELASTIC: ("true", "True"),
    ours.REBALANCE: ("true", "yes"),
    ours.DRAINED: ("true", "1"),
    ours.DIVIDED: ("false", "no"),
    ours.MOST_REPLICAS: ("16", "16.5"),
    ours.MAX_EVICTIONS: ("4", "-4"),
    ours.PROVISION_RETRIES: ("2", "twice"),
    ours.SHARE_WEIGHTS: ("a=2, b=0.5", "a=2,b=0"),
    ours.PRICE: ("2.5", "$2.5"),
    ours.BOOT_SECONDS: ("90", "2m"),
    ours.BANDWIDTH: ("10", "10Gbit"),
    ours.CHECKPOINT_TIME: ("2026-01-02T00:00:00Z", "2026-01-02"),
    ours.INTERRUPTED_AT: ("2026-01-02T00:00:00Z", "soon"),
    ours.PROGRESS: ("30/100", "30 %"),
    ours.LIMITS_FROM: ("members", "member"),
    ours.RESTART_POLICY: ("Part", "OnFailure"),
    ours.EVICTABLE: ("surplus", "some"),
    ours.SERVE: ("kueue", "Kueue"),
    ours.KUEUE_QUEUES: ("team=research", "team"),
}
"""A value that counts, and one that does not."""

REFUSED = {
    *(ours.LICENSES, ours.PRICES, ours.GIGABYTES, ours.HOT_SPARES, ours.IDLE_GPUS),
    *(ours.ONE_OF, ours.ONE_OF_BY, ours.NEAR, ours.APART, ours.SPREAD),
    *(ours.MAX_RUN_TIME, ours.DEFAULT_RUN_TIME, ours.QUOTAS, ours.QUEUE_NAMESPACES, ours.USER_LIMITS, ours.JOB_KIND),
}
"""Admission refuses what cannot be read of these."""

TEXTS = {
    *(ours.WORKING_DIRECTORY, ours.READABLE_DIRECTORIES, ours.WRITABLE_DIRECTORIES, ours.SHARED_NETWORK),
    *(ours.FLEET, ours.NETWORK, ours.CLUSTER_ID, ours.QUEUE_USERS, ours.RESERVATION),
    *(ours.SIMULATED, ours.SERVICE_ADDRESS, ours.NODE_FAULTS),
}
"""Names and paths, of which every text is one, and marks that count by being there."""

WRITTEN_HERE = {
    *(ours.RELEASED, ours.WAITS_SUSPENDED, ours.VERDICT, ours.GANG_PARTS, ours.LATER_PARTS, ours.SET_ASIDE),
    *(ours.SCHEDULER_CYCLES, ours.SCHEDULER_NAMES, ours.CONFIGURATION_ERROR, ours.CONFIGURATION_SOURCE),
    *(ours.CONFIGURATION_NOTES, ours.CONFIGURATION_DIGEST, ours.ENFORCED_QUEUE_FIELDS, ours.FAILED_NODES),
    ours.CONFIGURATION_PARTS,
    *(ours.USAGE_CPU, ours.USAGE_MEMORY, ours.USAGE_TIME, ours.CARDS, ours.SCALED_AT, ours.PROVISION_FAILURES),
    *(ours.BACKOFF_UNTIL, ours.SCALE_DOWN, ours.INTERRUPTED, ours.CHECKPOINT_BEFORE, ours.NOTICE_GIVEN),
    *(ours.CLUSTER, ours.DISPATCH, ours.SEAL, ours.HUB, ours.APPLICATION, ours.ORIGIN_UID, ours.ORIGIN_GROUP),
    *(
        ours.MACHINES,
        ours.PROMISED_TO,
        ours.USE,
        ours.LAST_CLUSTER,
        ours.CLUSTER_POINTS,
        ours.DIVISION,
        ours.APPLIED,
        ours.GANG,
        ours.SPLIT,
    ),
    *(ours.MEMBER_REASONS, ours.USER, ours.ADMITTED_QUEUES, ours.CHECKED),
    *(ours.NODE_CHECK, ours.NODE_CHECKS, ours.QUARANTINE, ours.GOT),
}
"""What components write, and nobody else."""


@pytest.mark.parametrize("key", sorted(READ))
def test_a_value_that_cannot_be_read_is_told(key: str) -> None:
    good, bad = READ[key]
    assert not unreadable({"metadata": {"annotations": {key: good}}})
    (told,) = unreadable({"spec": {"template": {"metadata": {"annotations": {key: bad}}}}}, ("spec.template",))
    assert told.startswith(f'spec.template.metadata.annotations[{key}]: "{bad}" ')
    assert ": write " in told


def test_every_key_stands_in_one_of_the_lists() -> None:
    known = [*READ, *REFUSED, *TEXTS, *WRITTEN_HERE]
    assert sorted(known) == sorted(each for each in vars(ours).values() if str(each).startswith("unisono.io/"))
