"""Field numbers of the messages that clients send as protobuf, one line per field: number, name, type.

A type is a scalar (``string``, ``int``, ``bool``, ``bytes``), a well-known message (``time``, ``microtime``), another
message of this table, ``map`` (text to text), ``bytesmap`` (text to bytes), or one of these in a list (``[]string``).
The numbers are part of Kubernetes' public protocol and never change.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message; ``repeated`` fields make a list."""

    name: str
    type: str
    repeated: bool


Message = dict[int, Field]

_META = {
    "ObjectMeta": """
        1 name string
        2 generateName string
        3 namespace string
        4 selfLink string
        5 uid string
        6 resourceVersion string
        7 generation int
        8 creationTimestamp time
        9 deletionTimestamp time
        10 deletionGracePeriodSeconds int
        11 labels map
        12 annotations map
        13 ownerReferences []OwnerReference
        14 finalizers []string
        17 managedFields []ManagedFields
    """,
    "OwnerReference": """
        1 kind string
        3 name string
        4 uid string
        5 apiVersion string
        6 controller bool
        7 blockOwnerDeletion bool
    """,
    "ManagedFields": """
        1 manager string
        2 operation string
        3 apiVersion string
        4 time time
        6 fieldsType string
        7 fieldsV1 json
        8 subresource string
    """,
    "ObjectReference": """
        1 kind string
        2 namespace string
        3 name string
        4 uid string
        5 apiVersion string
        6 resourceVersion string
        7 fieldPath string
    """,
    "LocalObjectReference": "1 name string",
    "Condition": """
        1 type string
        2 status string
        4 lastTransitionTime time
        5 reason string
        6 message string
    """,
    "Preconditions": """
        1 uid string
        2 resourceVersion string
    """,
}

_KINDS = {
    "DeleteOptions": """
        1 gracePeriodSeconds int
        2 preconditions Preconditions
        3 orphanDependents bool
        4 propagationPolicy string
        5 dryRun []string
    """,
    "Namespace": """
        1 metadata ObjectMeta
        2 spec NamespaceSpec
        3 status NamespaceStatus
    """,
    "NamespaceSpec": "1 finalizers []string",
    "NamespaceStatus": """
        1 phase string
        2 conditions []Condition
    """,
    "ConfigMap": """
        1 metadata ObjectMeta
        2 data map
        3 binaryData bytesmap
        4 immutable bool
    """,
    "Secret": """
        1 metadata ObjectMeta
        2 data bytesmap
        3 type string
        4 stringData map
        5 immutable bool
    """,
    "ServiceAccount": """
        1 metadata ObjectMeta
        2 secrets []ObjectReference
        3 imagePullSecrets []LocalObjectReference
        4 automountServiceAccountToken bool
    """,
    "PriorityClass": """
        1 metadata ObjectMeta
        2 value int
        3 globalDefault bool
        4 description string
        5 preemptionPolicy string
    """,
    "Binding": """
        1 metadata ObjectMeta
        2 target ObjectReference
    """,
    "Eviction": """
        1 metadata ObjectMeta
        2 deleteOptions DeleteOptions
    """,
    "Lease": """
        1 metadata ObjectMeta
        2 spec LeaseSpec
    """,
    "LeaseSpec": """
        1 holderIdentity string
        2 leaseDurationSeconds int
        3 acquireTime microtime
        4 renewTime microtime
        5 leaseTransitions int
        6 strategy string
        7 preferredHolder string
    """,
    "Event": """
        1 metadata ObjectMeta
        2 involvedObject ObjectReference
        3 reason string
        4 message string
        5 source EventSource
        6 firstTimestamp time
        7 lastTimestamp time
        8 count int
        9 type string
        10 eventTime microtime
        11 series EventSeries
        12 action string
        13 related ObjectReference
        14 reportingComponent string
        15 reportingInstance string
    """,
    "EventSource": """
        1 component string
        2 host string
    """,
    "EventSeries": """
        1 count int
        2 lastObservedTime microtime
    """,
}

# Messages that may stand at the top of a body, by kind.
TOP_LEVEL = (
    "Binding",
    "ConfigMap",
    "DeleteOptions",
    "Event",
    "Eviction",
    "Lease",
    "Namespace",
    "PriorityClass",
    "Secret",
    "ServiceAccount",
)


def _message(text: str) -> Message:
    fields: Message = {}
    for line in text.strip().splitlines():
        number, name, kind = line.split()
        fields[int(number)] = Field(name, kind.removeprefix("[]"), kind.startswith("[]"))
    return fields


MESSAGES: dict[str, Message] = {name: _message(text) for name, text in (_META | _KINDS).items()}
