"""Running a command inside a container that runs already, and trying out what this machine allows.

Descriptors of a command that enters: 0, 1 and 2 are its own; 3 takes one line about how it went: ``exit CODE``, or
``failed WHY`` when it could not even start.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # ``signal`` costs 8 ms: it makes enums
import os
import select
import stat

from unisono.agent.shim import kernel

# The inner processes: process 1 of the container, and the one that becomes the container's command.

# pathlib would cost milliseconds at every start of a container.
# ruff: noqa: PTH116, PTH118, PTH123, S606

TYPE_CHECKING = False  # importing typing would cost milliseconds at every start of a container
if TYPE_CHECKING:
    from typing import Any, NoReturn

    Spec = dict[str, Any]

CLOSED_TO_OTHERS = " for the user of this pod's namespace: run 'chmod -R o+rX {}' so that all users may read it"
WAY_OUT = (
    " for the user of this pod's namespace: move it to a place that all users may read, or let an administrator "
    "annotate the namespace with unisono.io/readable-directories"
)


def run_init(spec: Spec, stdio: tuple[int, int, int], status_fd: int, failed_fd: int) -> NoReturn:
    """Process 1 of the container: set up what it sees, start its command, reap, pass its status on; never returns."""
    early: list[bool] = []
    signal.signal(signal.SIGTERM, lambda *_: early.append(True))
    ready, executed = os.pipe()
    try:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        if spec["isolation"] != "none":
            prepare(spec)
        child = os.fork()
        if child == 0:
            run_command(spec, stdio, failed_fd)
    except BaseException as error:  # whatever it is, the agent must learn of it
        kernel.write_all(failed_fd, kernel.describe(error))
        os._exit(1)
    for fd in {*stdio, failed_fd, executed}:
        os.close(fd)
    # Until the command has replaced our own code, a SIGTERM would meet our handlers: it is kept back.
    kernel.read_all(ready)
    signal.signal(signal.SIGTERM, lambda *_: end_command(child))
    if early:
        end_command(child)
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            break
        if pid == child:
            kernel.write_all(status_fd, str(status).encode())
            break
    os._exit(0)


def end_command(pid: int) -> None:
    """SIGTERM to the command's whole process group."""
    try:
        os.killpg(pid, signal.SIGTERM)
    except ProcessLookupError:
        return


def prepare(spec: Spec) -> None:
    """Mounts and host name, inside fresh namespaces."""
    kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWUTS)
    from unisono.agent.shim.mounts import set_up

    who = None if spec["uid"] is None else (spec["uid"], spec["gid"], spec["groups"] or [])
    set_up(
        spec["mounts"],
        spec["dir"] + "/root",
        read_only=spec["read_only_root"],
        user=who,
        covers=spec["covers"],
        writable=spec["writable"],
    )
    name = spec["hostname"].encode()
    kernel.libc().sethostname(name, len(name))


def run_command(spec: Spec, stdio: tuple[int, int, int], failed_fd: int) -> NoReturn:
    """Become the container's command."""
    os.setsid()
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    for target, source in enumerate(stdio):
        os.dup2(source, target)
    if spec.get("tty"):
        take_terminal()
    for number in (
        signal.SIGTERM,
        signal.SIGUSR1,
        signal.SIGINT,
        signal.SIGQUIT,
        signal.SIGHUP,
        signal.SIGPIPE,
        signal.SIGXFSZ,
    ):
        signal.signal(number, signal.SIG_DFL)
    if spec["oom_score"]:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write(spec["oom_score"])
    if spec.get("affinity"):
        os.sched_setaffinity(0, spec["affinity"])
    try:
        take_identity(spec)
    except OSError as error:
        fail(failed_fd, str(error.strerror))
    execute(spec["argv"], spec["env"], failed_fd)


def take_terminal() -> None:
    """Make the terminal on descriptor 0 the session's own, so that Ctrl-C reaches the command."""
    import fcntl

    tiocsctty = 0x540E  # the same on every architecture that Python runs on here, but MIPS and SPARC
    fcntl.ioctl(0, tiocsctty, 0)


def take_identity(spec: Spec) -> None:
    """Become the user of the command, in its working directory.

    A user of its own enters the directory with its own rights; for others the machine's administrator decides what
    they may see, and a folder of his may be their working directory.
    """
    if spec["own_user"]:
        become(spec)
        enter_directory(spec["cwd"], WAY_OUT)
    else:
        enter_directory(spec["cwd"])
        become(spec)


def enter_directory(directories: list[str], way_out: str = "") -> None:
    """Enter the first of some directories that may be entered."""
    for last, directory in enumerate(directories, 1):
        try:
            os.chdir(directory)
        except OSError as error:
            if last == len(directories):
                if way_out and is_closed(directory):
                    way_out = CLOSED_TO_OTHERS.format(directory)
                message = f"the working directory {directory} cannot be entered: {error.strerror}{way_out}"
                raise OSError(error.errno, message) from None
        else:
            return


def is_closed(directory: str) -> bool:
    """Whether it is the directory itself, and no folder above it, that other users may not enter."""
    try:
        return not os.stat(directory).st_mode & stat.S_IXOTH
    except OSError:
        return False


def become(spec: Spec) -> None:
    """Take the user and groups that the security context names."""
    try:
        if spec["uid"] is not None:
            for fd in range(3):
                # A program may open /dev/stdout again, as a file of the user that it runs as.
                if stat.S_ISFIFO(os.fstat(fd).st_mode):
                    os.fchown(fd, spec["uid"], -1)
        if spec.get("processes") is not None:
            limit_processes(spec["processes"])
        if spec["groups"] is not None:
            os.setgroups(spec["groups"])
        if spec["gid"] is not None:
            os.setgid(spec["gid"])
        if spec["uid"] is not None:
            os.setuid(spec["uid"])
    except OSError as error:
        who = f"user {spec['uid']}, group {spec['gid']}"
        raise OSError(error.errno, f"the process cannot become {who}: {error.strerror}") from None
    if spec["no_new_privileges"]:
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)


def limit_processes(most: int) -> None:
    """At most so many processes and threads of the command's user; a lower limit that is in force stays."""
    import resource

    now = [each for each in resource.getrlimit(resource.RLIMIT_NPROC) if each != resource.RLIM_INFINITY]
    least = min([most, *now])
    resource.setrlimit(resource.RLIMIT_NPROC, (least, least))


def execute(argv: list[str], env: dict[str, str], failed_fd: int) -> NoReturn:
    """Replace this process by the command, found along the PATH of its own environment."""
    name = argv[0]
    folders = [""] if "/" in name else [p or "." for p in env.get("PATH", os.defpath).split(":")]
    problem = "executable file not found in $PATH"
    for folder in folders:
        path = os.path.join(folder, name)
        try:
            os.execve(path, argv, env)
        except (FileNotFoundError, NotADirectoryError):
            if not folder:
                problem = "no such file or directory"
        except OSError as error:
            problem = (error.strerror or str(error)).lower()
    fail(failed_fd, f'exec: "{name}": {problem}')


def fail(failed_fd: int, message: str) -> NoReturn:
    """Tell the shim why the command does not start, and end."""
    kernel.write_all(failed_fd, message.encode())
    os._exit(kernel.START_ERROR)


# pathlib would cost milliseconds at every start of a container.


STATUS_FD = 3


def enter(spec: Spec) -> int:
    """Run a command inside a running container, and write to ``STATUS_FD`` how it went; 0 when there was one.

    The command ends with its container at the latest.
    """
    os.set_inheritable(STATUS_FD, False)
    try:
        container = os.pidfd_open(spec["init"])
        if kernel.start_time(spec["init"]) != spec["init_start_time"]:
            raise ProcessLookupError
        groups = [os.open(group + "/cgroup.procs", os.O_WRONLY) for group in spec["cgroups"]]
        join(spec)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            run_entered(spec, groups, writer)
    except (FileNotFoundError, ProcessLookupError):
        kernel.write_all(STATUS_FD, b"failed the container has ended")
        return 1
    except OSError as error:
        kernel.write_all(STATUS_FD, b"failed " + kernel.describe(error))
        return 1
    for fd in (writer, *groups):
        os.close(fd)
    # The reader of the command's output must see its end when the command closes it.
    null = os.open("/dev/null", os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
    problem = kernel.read_all(reader)
    status = wait_for(child, container)
    code = os.waitstatus_to_exitcode(status)
    kernel.write_all(
        STATUS_FD, b"failed " + problem if problem else f"exit {code if code >= 0 else 128 - code}".encode()
    )
    return 0


def join(spec: Spec) -> None:
    """Enter the container's namespaces; the next child is inside of all of them."""
    import ctypes

    for name, fd in [(name, os.open(f"/proc/{spec['init']}/ns/{name}", os.O_RDONLY)) for name in spec["namespaces"]]:
        if kernel.libc().setns(fd, 0):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), name)
        os.close(fd)


def run_entered(spec: Spec, groups: list[int], failed_fd: int) -> NoReturn:
    """Become the command, in a session of its own.

    Only this process enters the container's cgroups, by their open ``cgroup.procs``: the one that waits for it must
    still be there to tell how it went when all of a cgroup is killed.
    """
    try:
        for group in groups:
            os.write(group, b"0")
            os.close(group)
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setsid()
        if spec.get("tty"):
            take_terminal()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        take_identity(spec)
    except OSError as error:
        kernel.write_all(failed_fd, kernel.describe(error))
        os._exit(1)
    execute(spec["argv"], spec["env"], failed_fd)


def wait_for(child: int, container: int) -> int:
    """Wait status of the child; it is killed when the container ends, as far as the kernel has not done that."""
    own = os.pidfd_open(child)
    poll = select.poll()
    poll.register(own, select.POLLIN)
    poll.register(container, select.POLLIN)
    if all(fd != own for fd, _ in poll.poll()):
        end_group(child)
    return os.waitpid(child, 0)[1]


def end_group(pid: int) -> None:
    """SIGKILL to a whole process group."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def probe(directory: str) -> None:
    """Print how much isolation this machine allows: ``root``, ``user`` or ``none``, and why not more."""
    from unisono.agent.shim.mounts import set_up

    try:
        kind = "root" if os.geteuid() == 0 else "user"
        if kind == "user":
            kernel.enter_user_namespace()
        kernel.unshare(kernel.CLONE_NEWPID)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWUTS)
                set_up([(directory, "/unisono-probe", False, "", False)], directory + "/root", read_only=False)
            except OSError as error:
                kernel.write_all(writer, f"none {error.strerror} ({error.filename})".encode())
            os._exit(0)
        os.close(writer)
        kind = kernel.read_all(reader).decode() or kind
        os.waitpid(child, 0)
    except OSError as error:
        kind = f"none {error.strerror}"
    print(kind)
