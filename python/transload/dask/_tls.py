"""`transload://` with certificates, and `transload+tls://`: our values over Dask's own TLS connections.

Certificates, host names and ciphers are what Dask's `Security` says, as an `ssl.SSLContext` that only Python's TLS can use. So
the bytes take the road of Dask's `tls://` (tornado, one stream), and what is in them is ours.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from distributed.comm.addressing import get_address_host
from distributed.comm.core import Comm
from distributed.comm.tcp import TLS, TLSConnector, TLSListener

from . import _process, _wire
from ._counters import end_links, links

__all__ = ["EncryptedComm", "EncryptedConnector", "EncryptedListener"]


class Counts:
    """What went over a connection; bytes as written and read, small ones of Dask's own left out."""

    def __init__(self) -> None:
        self.messages_sent = self.messages_received = self.nbytes_sent = self.nbytes_received = 0

    def stats(self) -> dict[str, Any]:
        return {
            "path": "tls",
            "streams": 1,
            **vars(self),
            "nbytes_copied": 0,
            "seconds_sending": 0.0,
            "seconds_receiving": 0.0,
            "decisions": [("path", "shared memory", "encrypted connections are one TCP stream", False)],
        }

    def counting(self, read_into: Callable[..., Awaitable[int]]) -> Callable[..., Awaitable[int]]:
        """Return a stream's `read_into` that counts; tornado keeps no count."""

        def counted(buffer: Any, partial: bool = False) -> Awaitable[int]:
            self.nbytes_received += memoryview(buffer).nbytes
            return read_into(buffer, partial)

        return counted


class EncryptedComm(TLS):
    """An established connection."""

    def __init__(self, stream: Any, *args: Any, **kwargs: Any) -> None:
        self._counts = Counts()
        self._links: list[int] = []  # its token among those that are counted
        stream.read_into = self._counts.counting(stream.read_into)
        super().__init__(stream, *args, **kwargs)
        weakref.finalize(self, end_links, self._links).atexit = False
        _process.carry(self)
        stream.set_close_callback(functools.partial(_stream_closed, weakref.ref(self)))

    def handshake_info(self) -> dict[str, Any]:
        """Add that this end reads our form to Dask's own facts."""
        return {**super().handshake_info(), _wire.KEY: _wire.caller_announcement(self.deserialize)}

    @staticmethod
    def handshake_configuration(local: dict[str, Any], remote: dict[str, Any]) -> dict[str, Any]:
        """Add the mark by which values are encoded in our form, for Dask's stream of bytes."""
        return {**Comm.handshake_configuration(local, remote), _wire.KEY: _wire.STREAM}

    async def read(self, deserializers: Sequence[str] | None = None) -> Any:
        message = await super().read(deserializers)
        self._counts.messages_received += 1
        return message

    async def write(self, msg: Any, serializers: Sequence[str] | None = None, on_error: str = "message") -> int:
        if self.deserialize:
            msg = _wire.with_request_marked(msg, serializers)
        nbytes: int = await super().write(msg, serializers=serializers, on_error=on_error)
        self._counts.messages_sent += 1
        self._counts.nbytes_sent += nbytes
        return nbytes

    async def close(self) -> None:
        await super().close()
        self._let_go()

    def abort(self) -> None:
        super().abort()
        self._let_go()

    def _let_go(self) -> None:
        end_links(self._links)
        _process.put_down(self)

    @property
    def extra_info(self) -> dict[str, Any]:
        """The peer's certificate, the cipher, and what went over the connection."""
        return {**self._extra, **self._counts.stats()}


def _stream_closed(ref: weakref.ref[EncryptedComm]) -> None:
    comm = ref()
    if comm is not None:
        comm._closed = True  # as Dask's own callback, in whose place this stands
        comm._let_go()


class EncryptedConnector(TLSConnector):
    comm_class = EncryptedComm

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    async def connect(self, address: str, deserialize: bool = True, **connection_args: Any) -> EncryptedComm:
        comm: EncryptedComm = await super().connect(address, deserialize, **connection_args)
        comm._links.append(links.opened(comm.peer_address, comm._counts.stats))
        return comm


class EncryptedListener(TLSListener):
    comm_class = EncryptedComm
    default_host: str | None

    def __init__(self, prefix: str, *args: Any, **kwargs: Any) -> None:
        self.prefix = prefix
        super().__init__(*args, **kwargs)

    @property
    def _server(self) -> object:
        return getattr(self.comm_handler, "__self__", None)

    async def start(self) -> None:
        _process.listens(self._server)
        await super().start()
        _process.carry(self)

    def stop(self) -> None:
        super().stop()
        _process.listens_no_more(self._server)
        _process.put_down(self)

    async def on_connection(self, comm: Comm, handshake_overrides: dict[str, Any] | None = None) -> None:
        says = _process.says_on_our_comm(self._server)
        await super().on_connection(comm, {**(handshake_overrides or {}), _wire.KEY: says})
        assert isinstance(comm, EncryptedComm)
        if not comm.closed():
            host = get_address_host(comm.peer_address)
            comm._links.append(links.accepted(host, _wire.counted_there(comm), comm._counts.stats))

    @property
    def contact_address(self) -> str:
        if self.default_host is None:
            self.default_host = _process.host_of(self._server, [self.get_host_port()])
        return str(super().contact_address)
