"""Gives each pod the sockets of its own address on the shared network of this machine.

Four small programs on the pod's cgroup change what its processes see; the network itself stays the machine's, so
that pods reach everything that their user reaches:

* **bind**: a fixed TCP port bound to 0.0.0.0 or 127.0.0.1 is bound to the pod's address, so that two pods may
  use the same port. Port 0 and other addresses are left alone. A server that listens on the pod's address already
  and wants the same port of 127.0.0.1 as well, as Ray's agents do, gets it on the pod's second address. The addresses
  of other pods cannot be bound, by TCP or UDP: a pod must not answer in another's name.
* **connect**: 127.0.0.1 leads to the pod's own listener where it has one on that port, else to the machine's.
* **getsockname**: a UDP socket that asks "which address do I send from" is told the pod's address (the way
  programs such as Ray find their own address).
* **socket**: IPv6 sockets are not available, as on an IPv4 node, because a pod has an IPv4 address only.

Decision and alternatives: ``docs/decisions/0003-pod-network-on-one-machine.md``.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from unisono.agent.network import bpf
from unisono.agent.network.addresses import NETWORK
from unisono.agent.network.bpf import Ins

# struct bpf_sock_addr (linux/bpf.h), offsets in bytes.
_IP4, _PORT, _TYPE, _SOCKET = 4, 24, 32, 64
# struct bpf_sock: family, and the address that the socket is connected to.
_FAMILY, _PEER_IP4 = 4, 52
_SK_LOOKUP_TCP, _SK_RELEASE, _SET_RETVAL = 84, 86, 187
_CURRENT_NETNS = 0xFFFFFFFF
_ANY, _LOOPBACK = "0.0.0.0", "127.0.0.1"  # noqa: S104  # nosec B104 # compared with, never bound


def isolate(cgroup: Path, pod_ip: str, machine_ips: Sequence[str]) -> None:
    """Attach the programs for a pod with address ``pod_ip``; they go when the cgroup is removed.

    Args:
        cgroup: directory of the pod's cgroup (v2).
        pod_ip: dotted IPv4 address of the pod.
        machine_ips: the machine's other IPv4 addresses, which UDP sockets answer with.

    Raises:
        OSError: this kernel or this user cannot attach such programs.
    """
    descriptor = os.open(cgroup, os.O_RDONLY | os.O_DIRECTORY)
    try:
        bpf.attach(descriptor, bpf.BIND4, bind_program(pod_ip))
        bpf.attach(descriptor, bpf.CONNECT4, connect_program(pod_ip))
        bpf.attach(descriptor, bpf.GETSOCKNAME4, own_address_program(pod_ip, machine_ips))
        try:
            bpf.attach(descriptor, bpf.SOCK_CREATE, no_ipv6_program())
        except OSError:
            # Kernels before 5.18 cannot choose the error: socket() then fails with EPERM.
            bpf.attach(descriptor, bpf.SOCK_CREATE, no_ipv6_program(with_error=False))
    finally:
        os.close(descriptor)


def bind_program(pod_ip: str) -> list[Ins]:
    """TCP bind of a fixed port on every address, or on loopback, goes to the pod's address, or else to its second."""
    second = second_address(pod_ip)
    return [
        Ins(bpf.MOV, 6, 1),
        # Addresses of other pods are refused, of whatever protocol and port.
        Ins(bpf.LOAD32, 2, 6, _IP4),
        Ins(bpf.JUMP32_EQ_IMM, 2, imm=_word(pod_ip), to="allow"),
        Ins(bpf.JUMP32_EQ_IMM, 2, imm=_word(second), to="allow"),
        Ins(bpf.MOV, 3, 2),
        Ins(bpf.AND32_IMM, 3, imm=_word(str(NETWORK.netmask))),
        Ins(bpf.JUMP32_EQ_IMM, 3, imm=_word(str(NETWORK.network_address)), to="refuse"),
        Ins(bpf.JUMP32_EQ_IMM, 3, imm=_word(second_address(str(NETWORK.network_address))), to="refuse"),
        Ins(bpf.LOAD32, 2, 6, _TYPE),
        Ins(bpf.JUMP32_NE_IMM, 2, imm=socket.SOCK_STREAM, to="allow"),
        Ins(bpf.LOAD32, 2, 6, _PORT),
        Ins(bpf.JUMP32_EQ_IMM, 2, imm=0, to="allow"),
        Ins(bpf.LOAD32, 2, 6, _IP4),
        Ins(bpf.JUMP32_EQ_IMM, 2, imm=_word(_ANY), to="first"),
        Ins(bpf.JUMP32_NE_IMM, 2, imm=_word(_LOOPBACK), to="allow"),
        *_to_listener(pod_ip, leads_to=second, otherwise="first"),
        Ins(bpf.MOV32_IMM, 2, imm=_word(pod_ip), label="first"),
        Ins(bpf.STORE32, 6, 2, _IP4),
        *_allow(),
        Ins(bpf.MOV_IMM, 0, imm=0, label="refuse"),
        Ins(bpf.EXIT),
    ]


def connect_program(pod_ip: str) -> list[Ins]:
    """TCP connect to loopback goes to the pod's second or first address where a process listens there."""
    second = second_address(pod_ip)
    return [
        Ins(bpf.MOV, 6, 1),
        Ins(bpf.LOAD32, 2, 6, _TYPE),
        Ins(bpf.JUMP32_NE_IMM, 2, imm=socket.SOCK_STREAM, to="allow"),
        Ins(bpf.LOAD32, 2, 6, _IP4),
        Ins(bpf.JUMP32_NE_IMM, 2, imm=_word(_LOOPBACK), to="allow"),
        *_to_listener(second, leads_to=second, otherwise="first"),
        *_to_listener(pod_ip, leads_to=pod_ip, otherwise="allow", label="first"),
        *_allow(),
    ]


def second_address(pod_ip: str) -> str:
    """Where a pod's loopback is when its first address is taken: in the block of addresses above that of all pods."""
    return str(ipaddress.IPv4Address(pod_ip) + NETWORK.num_addresses)


def _to_listener(ip: str, *, leads_to: str, otherwise: str, label: str = "") -> Iterator[Ins]:
    """Rewrite the address to ``leads_to`` and be done, if a process listens at ``ip`` and the port in question."""
    # A struct bpf_sock_tuple on the stack: source address, destination address, source port, destination port.
    yield Ins(bpf.STORE32_IMM, 10, off=-12, imm=0, label=label)
    yield Ins(bpf.STORE32_IMM, 10, off=-8, imm=_word(ip))
    yield Ins(bpf.STORE32_IMM, 10, off=-4, imm=0)
    yield Ins(bpf.LOAD32, 2, 6, _PORT)
    yield Ins(bpf.STORE16, 10, 2, -2)
    yield Ins(bpf.MOV, 1, 6)
    yield Ins(bpf.MOV, 2, 10)
    yield Ins(bpf.ADD_IMM, 2, imm=-12)
    yield Ins(bpf.MOV_IMM, 3, imm=12)
    yield Ins(bpf.MOV_IMM, 4, imm=_CURRENT_NETNS)
    yield Ins(bpf.MOV_IMM, 5, imm=0)
    yield Ins(bpf.CALL, imm=_SK_LOOKUP_TCP)
    yield Ins(bpf.JUMP_EQ_IMM, 0, imm=0, to=otherwise)
    yield Ins(bpf.MOV, 1, 0)
    yield Ins(bpf.CALL, imm=_SK_RELEASE)
    yield Ins(bpf.MOV32_IMM, 2, imm=_word(leads_to))
    yield Ins(bpf.STORE32, 6, 2, _IP4)
    yield Ins(bpf.JUMP, to="allow")


def own_address_program(pod_ip: str, machine_ips: Sequence[str]) -> list[Ins]:
    """A UDP socket's own address is the pod's where it would be one of the machine's.

    One that is connected to another pod would answer 127.0.0.1, from where the machine sends to all of 127.0.0.0/8.
    A socket that its program bound to 127.0.0.1, or connected to it, keeps that address.
    """
    return [
        Ins(bpf.MOV, 6, 1),
        Ins(bpf.LOAD32, 2, 6, _TYPE),
        Ins(bpf.JUMP32_NE_IMM, 2, imm=socket.SOCK_DGRAM, to="allow"),
        Ins(bpf.LOAD32, 2, 6, _IP4),
        *(Ins(bpf.JUMP32_EQ_IMM, 2, imm=_word(ip), to="rewrite") for ip in machine_ips),
        Ins(bpf.JUMP32_NE_IMM, 2, imm=_word(_LOOPBACK), to="allow"),
        Ins(bpf.LOAD64, 3, 6, _SOCKET),
        Ins(bpf.LOAD32, 2, 3, _PEER_IP4),
        Ins(bpf.JUMP32_EQ_IMM, 2, imm=_word(_ANY), to="allow"),
        Ins(bpf.JUMP32_EQ_IMM, 2, imm=_word(_LOOPBACK), to="allow"),
        Ins(bpf.MOV32_IMM, 2, imm=_word(pod_ip), label="rewrite"),
        Ins(bpf.STORE32, 6, 2, _IP4),
        *_allow(),
    ]


def no_ipv6_program(*, with_error: bool = True) -> list[Ins]:
    """``socket(AF_INET6, ...)`` fails with EAFNOSUPPORT, at which programs fall back to IPv4."""
    return [
        Ins(bpf.LOAD32, 2, 1, _FAMILY),
        Ins(bpf.JUMP32_NE_IMM, 2, imm=socket.AF_INET6, to="allow"),
        *((Ins(bpf.MOV_IMM, 1, imm=-errno.EAFNOSUPPORT), Ins(bpf.CALL, imm=_SET_RETVAL)) if with_error else ()),
        Ins(bpf.MOV_IMM, 0, imm=0),
        Ins(bpf.EXIT),
        *_allow(),
    ]


def _allow() -> tuple[Ins, Ins]:
    return Ins(bpf.MOV_IMM, 0, imm=1, label="allow"), Ins(bpf.EXIT)


def _word(ip: str) -> int:
    """An address as the 32-bit word that the kernel keeps: network byte order in memory, read by this machine."""
    return int(struct.unpack("=I", socket.inet_aton(ip))[0])
