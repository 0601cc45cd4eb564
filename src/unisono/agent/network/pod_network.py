"""Gives each pod the sockets of its own address, by small programs that the kernel runs for its cgroup."""

from __future__ import annotations

import ctypes
import errno
import functools
import ipaddress
import os
import platform
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from unisono.agent.network.names import NETWORK

# Just enough of the kernel's BPF interface to attach small programs to a cgroup.
#
# A program is a list of instructions that ``ins`` encodes; labels keep jumps readable. Nothing here knows what the
# programs are for (see ``pod_network``).

_SYSCALL = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361, "s390x": 351}
_PROG_LOAD, _PROG_ATTACH = 5, 8
_ALLOW_MULTI = 2
_LICENSE = b"Apache-2.0"

# Opcodes (linux/bpf.h): class | operation | source.
MOV = 0xBF
MOV_IMM = 0xB7
MOV32_IMM = 0xB4
ADD_IMM = 0x07
AND32_IMM = 0x54
LOAD32 = 0x61
LOAD64 = 0x79
STORE32 = 0x63
STORE16 = 0x6B
STORE32_IMM = 0x62
JUMP = 0x05
JUMP_EQ_IMM = 0x15
JUMP32_EQ_IMM = 0x16
JUMP32_NE_IMM = 0x56
CALL = 0x85
EXIT = 0x95


@dataclass(frozen=True, slots=True)
class Ins:
    """One instruction; ``to`` names the label that a jump leads to, ``label`` marks this place."""

    op: int
    dst: int = 0
    src: int = 0
    off: int = 0
    imm: int = 0
    to: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class Hook:
    """A place where the kernel calls a program: program type and attach type of ``linux/bpf.h``."""

    program: int
    attach: int


SOCK_CREATE = Hook(9, 2)
BIND4 = Hook(18, 8)
CONNECT4 = Hook(18, 10)
GETSOCKNAME4 = Hook(18, 31)


def assemble(program: Sequence[Ins]) -> bytes:
    """Machine code of a program, jumps resolved.

    Raises:
        KeyError: a jump names a label that does not exist.
    """
    places = {ins.label: index for index, ins in enumerate(program) if ins.label}
    code = bytearray()
    for index, ins in enumerate(program):
        offset = places[ins.to] - index - 1 if ins.to else ins.off
        imm = ins.imm - (1 << 32) if ins.imm >= 1 << 31 else ins.imm
        code += struct.pack("<BBhi", ins.op, ins.dst | ins.src << 4, offset, imm)
    return bytes(code)


def attach(cgroup_fd: int, hook: Hook, program: Sequence[Ins]) -> None:
    """Load ``program`` and let ``hook`` call it for every process of the cgroup, until the cgroup is removed.

    Raises:
        OSError: the kernel does not know the hook, refuses the program, or lacks the right to load it.
    """
    code = ctypes.create_string_buffer(assemble(program))
    text = ctypes.create_string_buffer(_LICENSE)
    load = struct.pack(
        "<IIQQIIQII16sII",
        hook.program,
        len(program),
        ctypes.addressof(code),
        ctypes.addressof(text),
        0,
        0,
        0,
        0,
        0,
        b"unisono",
        0,
        hook.attach,
    )
    descriptor = _bpf(_PROG_LOAD, load)
    try:
        _bpf(_PROG_ATTACH, struct.pack("<IIII", cgroup_fd, descriptor, hook.attach, _ALLOW_MULTI))
    finally:
        os.close(descriptor)


@functools.cache
def _libc() -> ctypes.CDLL:
    # Made once: each makes classes of its own, which costs more than the call.
    return ctypes.CDLL(None, use_errno=True)


def _bpf(command: int, attribute: bytes) -> int:
    number = _SYSCALL.get(platform.machine())
    if number is None:
        raise OSError(38, f"the bpf system call of {platform.machine()} is not known")
    buffer = ctypes.create_string_buffer(attribute, len(attribute))
    result = _libc().syscall(ctypes.c_long(number), ctypes.c_int(command), buffer, ctypes.c_uint(len(attribute)))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(result)


# Gives each pod the sockets of its own address on the shared network of this machine.
#
# Four small programs on the pod's cgroup change what its processes see; the network itself stays the machine's, so
# that pods reach everything that their user reaches:
#
# * **bind**: a fixed TCP port bound to 0.0.0.0 or 127.0.0.1 is bound to the pod's address, so that two pods may
#   use the same port. Port 0 and other addresses are left alone. A server that listens on the pod's address already
#   and wants the same port of 127.0.0.1 as well, as Ray's agents do, gets it on the pod's second address. The addresses
#   of other pods cannot be bound, by TCP or UDP: a pod must not answer in another's name.
# * **connect**: 127.0.0.1 leads to the pod's own listener where it has one on that port, else to the machine's.
# * **getsockname**: a UDP socket that asks "which address do I send from" is told the pod's address (the way
#   programs such as Ray find their own address).
# * **socket**: IPv6 sockets are not available, as on an IPv4 node, because a pod has an IPv4 address only.
#
# Decision and alternatives: ``docs/decisions/0003-pod-network-on-one-machine.md``.

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
        attach(descriptor, BIND4, bind_program(pod_ip))
        attach(descriptor, CONNECT4, connect_program(pod_ip))
        attach(descriptor, GETSOCKNAME4, own_address_program(pod_ip, machine_ips))
        try:
            attach(descriptor, SOCK_CREATE, no_ipv6_program())
        except OSError:
            # Kernels before 5.18 cannot choose the error: socket() then fails with EPERM.
            attach(descriptor, SOCK_CREATE, no_ipv6_program(with_error=False))
    finally:
        os.close(descriptor)


def bind_program(pod_ip: str) -> list[Ins]:
    """TCP bind of a fixed port on every address, or on loopback, goes to the pod's address, or else to its second."""
    second = second_address(pod_ip)
    return [
        Ins(MOV, 6, 1),
        # Addresses of other pods are refused, of whatever protocol and port.
        Ins(LOAD32, 2, 6, _IP4),
        Ins(JUMP32_EQ_IMM, 2, imm=_word(pod_ip), to="allow"),
        Ins(JUMP32_EQ_IMM, 2, imm=_word(second), to="allow"),
        Ins(MOV, 3, 2),
        Ins(AND32_IMM, 3, imm=_word(str(NETWORK.netmask))),
        Ins(JUMP32_EQ_IMM, 3, imm=_word(str(NETWORK.network_address)), to="refuse"),
        Ins(JUMP32_EQ_IMM, 3, imm=_word(second_address(str(NETWORK.network_address))), to="refuse"),
        Ins(LOAD32, 2, 6, _TYPE),
        Ins(JUMP32_NE_IMM, 2, imm=socket.SOCK_STREAM, to="allow"),
        Ins(LOAD32, 2, 6, _PORT),
        Ins(JUMP32_EQ_IMM, 2, imm=0, to="allow"),
        Ins(LOAD32, 2, 6, _IP4),
        Ins(JUMP32_EQ_IMM, 2, imm=_word(_ANY), to="first"),
        Ins(JUMP32_NE_IMM, 2, imm=_word(_LOOPBACK), to="allow"),
        *_to_listener(pod_ip, leads_to=second, otherwise="first"),
        Ins(MOV32_IMM, 2, imm=_word(pod_ip), label="first"),
        Ins(STORE32, 6, 2, _IP4),
        *_allow(),
        Ins(MOV_IMM, 0, imm=0, label="refuse"),
        Ins(EXIT),
    ]


def connect_program(pod_ip: str) -> list[Ins]:
    """TCP connect to loopback goes to the pod's second or first address where a process listens there."""
    second = second_address(pod_ip)
    return [
        Ins(MOV, 6, 1),
        Ins(LOAD32, 2, 6, _TYPE),
        Ins(JUMP32_NE_IMM, 2, imm=socket.SOCK_STREAM, to="allow"),
        Ins(LOAD32, 2, 6, _IP4),
        Ins(JUMP32_NE_IMM, 2, imm=_word(_LOOPBACK), to="allow"),
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
    yield Ins(STORE32_IMM, 10, off=-12, imm=0, label=label)
    yield Ins(STORE32_IMM, 10, off=-8, imm=_word(ip))
    yield Ins(STORE32_IMM, 10, off=-4, imm=0)
    yield Ins(LOAD32, 2, 6, _PORT)
    yield Ins(STORE16, 10, 2, -2)
    yield Ins(MOV, 1, 6)
    yield Ins(MOV, 2, 10)
    yield Ins(ADD_IMM, 2, imm=-12)
    yield Ins(MOV_IMM, 3, imm=12)
    yield Ins(MOV_IMM, 4, imm=_CURRENT_NETNS)
    yield Ins(MOV_IMM, 5, imm=0)
    yield Ins(CALL, imm=_SK_LOOKUP_TCP)
    yield Ins(JUMP_EQ_IMM, 0, imm=0, to=otherwise)
    yield Ins(MOV, 1, 0)
    yield Ins(CALL, imm=_SK_RELEASE)
    yield Ins(MOV32_IMM, 2, imm=_word(leads_to))
    yield Ins(STORE32, 6, 2, _IP4)
    yield Ins(JUMP, to="allow")


def own_address_program(pod_ip: str, machine_ips: Sequence[str]) -> list[Ins]:
    """A UDP socket's own address is the pod's where it would be one of the machine's.

    One that is connected to another pod would answer 127.0.0.1, from where the machine sends to all of 127.0.0.0/8.
    A socket that its program bound to 127.0.0.1, or connected to it, keeps that address.
    """
    return [
        Ins(MOV, 6, 1),
        Ins(LOAD32, 2, 6, _TYPE),
        Ins(JUMP32_NE_IMM, 2, imm=socket.SOCK_DGRAM, to="allow"),
        Ins(LOAD32, 2, 6, _IP4),
        *(Ins(JUMP32_EQ_IMM, 2, imm=_word(ip), to="rewrite") for ip in machine_ips),
        Ins(JUMP32_NE_IMM, 2, imm=_word(_LOOPBACK), to="allow"),
        Ins(LOAD64, 3, 6, _SOCKET),
        Ins(LOAD32, 2, 3, _PEER_IP4),
        Ins(JUMP32_EQ_IMM, 2, imm=_word(_ANY), to="allow"),
        Ins(JUMP32_EQ_IMM, 2, imm=_word(_LOOPBACK), to="allow"),
        Ins(MOV32_IMM, 2, imm=_word(pod_ip), label="rewrite"),
        Ins(STORE32, 6, 2, _IP4),
        *_allow(),
    ]


def no_ipv6_program(*, with_error: bool = True) -> list[Ins]:
    """``socket(AF_INET6, ...)`` fails with EAFNOSUPPORT, at which programs fall back to IPv4."""
    return [
        Ins(LOAD32, 2, 1, _FAMILY),
        Ins(JUMP32_NE_IMM, 2, imm=socket.AF_INET6, to="allow"),
        *((Ins(MOV_IMM, 1, imm=-errno.EAFNOSUPPORT), Ins(CALL, imm=_SET_RETVAL)) if with_error else ()),
        Ins(MOV_IMM, 0, imm=0),
        Ins(EXIT),
        *_allow(),
    ]


def _allow() -> tuple[Ins, Ins]:
    return Ins(MOV_IMM, 0, imm=1, label="allow"), Ins(EXIT)


def _word(ip: str) -> int:
    """An address as the 32-bit word that the kernel keeps: network byte order in memory, read by this machine."""
    return int(struct.unpack("=I", socket.inet_aton(ip))[0])
