"""Just enough of the kernel's BPF interface to attach small programs to a cgroup.

A program is a list of instructions that ``ins`` encodes; labels keep jumps readable. Nothing here knows what the
programs are for (see ``pod_network``).
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import struct
from collections.abc import Sequence
from dataclasses import dataclass

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
