"""A TCP proxy before a server, which cuts connections in the middle of what it carries, lets them fall silent,
carries everything late or in small pieces, or changes bits of it."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Proxy:
    """`cuts` are numbers of bytes: each new connection takes the next and dies after so many bytes from the server.

    With `piece`, so many bytes arrive at a time, both ways. With `delay`, each reading arrives so many seconds later.
    `replaced` are texts of the server and what the client gets instead, of the same length, such as an address that
    would lead past the proxy. Once `most` bytes from the server were carried, all connections stay open and carry
    nothing more, also new ones. With `damage`, one bit in about so many bytes arrives changed, from the client and
    from the server; 0 changes none. The first `spared` bytes of a connection arrive as they are, each way.
    """

    port: int
    target: int
    cuts: list[int] = field(default_factory=list)
    cut: int = 0
    piece: int = 0
    replaced: dict[bytes, bytes] = field(default_factory=dict)
    delay: float = 0.0
    most: int | None = None
    carried: int = 0  # from the server
    swallowed: int = 0
    damage: tuple[int, int] = (0, 0)
    spared: int = 0
    damaged: int = 0
    dice: random.Random = field(default_factory=lambda: random.Random(1))
    _generation: int = 0
    _paused_until: float = 0.0
    _silent: list[socket.socket] = field(default_factory=list)
    _ends: list[socket.socket] = field(default_factory=list)
    _open: bool = True

    def hush(self) -> None:
        """Let the connections of now stay open and carry nothing more; new ones are served."""
        self._generation += 1

    def cut_open(self) -> None:
        """End the connections of now. Clients that keep theirs open for long make new ones."""
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._ends.clear()

    def pause(self, seconds: float) -> None:
        """Carry nothing for so long, and then everything that has come meanwhile."""
        self._paused_until = time.monotonic() + seconds

    def serve(self, listener: socket.socket) -> None:
        while self._open:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            left = self.cuts.pop(0) if self.cuts else -1
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except ConnectionRefusedError:  # the server is down, and so the client is refused
                client.close()
                continue
            self._ends += [client, server]
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # otherwise pieces are joined on their way
            threading.Thread(target=self._carry, args=(client, server, -1, 0), daemon=True).start()
            threading.Thread(target=self._carry, args=(server, client, left, 1), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, left: int, counted: int) -> None:
        generation, passed = self._generation, 0
        with contextlib.suppress(OSError):
            while data := source.recv(4096):
                time.sleep(max(self.delay, self._paused_until - time.monotonic()))
                if generation != self._generation:
                    continue
                if self.most is not None and self.carried >= self.most:
                    self.swallowed += len(data)
                    continue
                self.carried += counted * len(data)
                for text, instead in self.replaced.items():
                    data = data.replace(text, instead)
                data, passed = self._changed(data, self.damage[counted], self.spared - passed), passed + len(data)
                if 0 <= left <= len(data):
                    sink.sendall(data[:left])
                    self.cut += 1
                    break
                self._send(sink, data)
                left -= len(data) if left >= 0 else 0
        if generation != self._generation:
            self._silent += [source, sink]  # open although the other end has closed: nobody says so
            return
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _changed(self, data: bytes, mean: int, spared: int) -> bytes:
        changed, place = bytearray(data), max(spared, 0)
        while mean and (place := place + int(self.dice.expovariate(1 / mean))) < len(data):
            changed[place] ^= 1 << self.dice.randrange(8)
            self.damaged += 1
            place += 1
        return bytes(changed)

    def _send(self, sink: socket.socket, data: bytes) -> None:
        size = self.piece or len(data)
        for first in range(0, len(data), size):
            sink.sendall(data[first : first + size])


@contextlib.contextmanager
def proxied(target: int) -> Iterator[Proxy]:
    listener = socket.create_server(("127.0.0.1", 0))
    proxy = Proxy(listener.getsockname()[1], target)
    threading.Thread(target=proxy.serve, args=(listener,), daemon=True).start()
    try:
        yield proxy
    finally:
        proxy._open = False
        listener.close()
