"""Clients that join a container's streams: they connect to a socket in the run's directory.

Frames in both directions: one byte that says what it is, four bytes of length (big-endian), and the bytes. The shim
sends outputs under the numbers of their descriptors, and ``TOO_SLOW`` before it leaves a client that does not read.
"""

from __future__ import annotations

# The modules behind ``socket`` and ``struct``, without what those add at the cost of milliseconds.
import _socket as socket
import _struct
import fcntl
import os
import select

STDIN, STDOUT, STDERR, RESIZE, CLOSE_STDIN, TOO_SLOW = 0, 1, 2, 4, 5, 6
FRAME = _struct.Struct(">BI")
SOCKET = "attach"
PIECE = 1 << 16
_WAITING = 1 << 20
_MOST_CLIENTS = 32
_TIOCSWINSZ = 0x5414


class Client:
    """One client: what it has not read yet, and the frame that is still coming."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.out = bytearray()
        self.received = bytearray()
        # It did not read for too long: it gets what waits for it, and nothing more.
        self.slow = False


class Attach:
    """The clients of one container.

    Args:
        directory: where the socket is made.
        poll: watches our descriptors.
        stdin: the container's stdin, or None; does not block.
        once: the first client that ends takes stdin along (``stdinOnce``).
        terminal: the container's terminal, or None.
    """

    def __init__(self, directory: str, poll: select.poll, stdin: int | None, once: bool, terminal: int | None) -> None:
        self.poll, self.stdin, self.once, self.terminal = poll, stdin, once, terminal
        self.clients: dict[int, Client] = {}
        # What the container has not taken of its stdin yet; meanwhile no client is heard.
        self.pending = b""
        self.ending = self.watched = False
        self.listener: int | None = None
        # The directory's path may be longer than the address of a socket may be.
        folder = os.open(directory, os.O_PATH | os.O_CLOEXEC)
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            server.bind(f"/proc/self/fd/{folder}/{SOCKET}")
            server.listen(8)
        except OSError:
            server.close()  # without it the container runs all the same
        else:
            self.listener = server.detach()
            poll.register(self.listener, select.POLLIN)
        finally:
            os.close(folder)

    def handles(self, fd: int, event: int) -> bool:
        """Do what a descriptor asks for; False when it is none of ours."""
        if fd == self.listener:
            self._accept(fd)
        elif fd == self.stdin and event & select.POLLOUT:
            self._push()
            return not event & select.POLLIN  # of a terminal: the output is the caller's
        elif fd in self.clients:
            client = self.clients[fd]
            if event & select.POLLOUT:
                self._flush(client)
            if event & ~select.POLLOUT and fd in self.clients:
                self._receive(client)
        else:
            return False
        return True

    def output(self, stream: int, data: bytes) -> None:
        """Send what the container wrote to every connected client."""
        for client in list(self.clients.values()):
            if len(client.out) > _WAITING and not client.slow:
                client.slow = True
                client.out += FRAME.pack(TOO_SLOW, 0)
            elif not client.slow:
                client.out += FRAME.pack(stream, len(data)) + data
            self._flush(client)

    def finish(self) -> None:
        """The container has ended: its clients get what is left, as far as they take it at once."""
        for client in list(self.clients.values()):
            self._flush(client)
            self._leave(client)

    def _accept(self, listener: int) -> None:
        server = socket.socket(fileno=os.dup(listener))
        try:
            fd, _ = server._accept()  # type: ignore[attr-defined]  # what ``accept`` of the module ``socket`` wraps
        except OSError:
            return
        finally:
            server.close()
        os.set_blocking(fd, False)
        if len(self.clients) >= _MOST_CLIENTS:
            os.close(fd)
            return
        self.clients[fd] = Client(fd)
        self._register(self.clients[fd])

    def _register(self, client: Client) -> None:
        events = (0 if self.pending else select.POLLIN) | (select.POLLOUT if client.out else 0)
        self.poll.register(client.fd, events)

    def _flush(self, client: Client) -> None:
        try:
            while client.out:
                del client.out[: os.write(client.fd, client.out)]
        except BlockingIOError:
            pass
        except OSError:
            self._leave(client)
            return
        if client.slow and not client.out:
            self._leave(client)
        else:
            self._register(client)

    def _leave(self, client: Client) -> None:
        if self.clients.pop(client.fd, None) is not None:
            self.poll.unregister(client.fd)
            os.close(client.fd)
            if self.once:
                self.close_stdin()

    def _receive(self, client: Client) -> None:
        try:
            data = os.read(client.fd, PIECE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._leave(client)
            return
        client.received += data
        while len(client.received) >= FRAME.size:
            kind, length = FRAME.unpack_from(client.received)
            if length > PIECE:
                self._leave(client)
                return
            if len(client.received) < FRAME.size + length:
                return
            body = bytes(client.received[FRAME.size : FRAME.size + length])
            del client.received[: FRAME.size + length]
            self._frame(kind, body)

    def _frame(self, kind: int, body: bytes) -> None:
        if kind == STDIN and self.stdin is not None:
            self.pending += body
            self._push()
        elif kind == CLOSE_STDIN and self.once and not self.pending:
            self.close_stdin()
        elif kind == CLOSE_STDIN:
            self.ending = self.once
        elif kind == RESIZE and self.terminal is not None and len(body) == 4:
            columns, rows = _struct.unpack(">HH", body)
            fcntl.ioctl(self.terminal, _TIOCSWINSZ, _struct.pack("HHHH", rows, columns, 0, 0))

    def _push(self) -> None:
        """Hand the container what waits for it; clients are heard again when it took everything."""
        try:
            while self.pending and self.stdin is not None:
                self.pending = self.pending[os.write(self.stdin, self.pending) :]
        except BlockingIOError:
            pass
        except OSError:
            self.pending = b""
            self.close_stdin()
        if self.stdin is not None:
            # A pipe that has room all the time must not be watched without need.
            events = (select.POLLIN if self.stdin == self.terminal else 0) | (select.POLLOUT if self.pending else 0)
            self.poll.register(self.stdin, events)
            self.watched = True
        if self.ending and not self.pending:
            self.close_stdin()
        for client in self.clients.values():
            self._register(client)

    def close_stdin(self) -> None:
        """Nothing more comes on the container's stdin."""
        if self.stdin is not None and self.stdin != self.terminal:
            if self.watched:
                self.poll.unregister(self.stdin)
            os.close(self.stdin)
            self.stdin, self.watched = None, False
