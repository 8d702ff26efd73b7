"""`transload://` with certificates, and `transload+tls://`: our messages over TLS connections that Dask has made.

Certificates, host names and ciphers are what Dask's `Security` says, as an `ssl.SSLContext` that only Python's TLS can use. So
the bytes take the road of Dask's `tls://` (tornado, one stream). A message on it is

    u64 number n of frames, u64 bytes in small ones, n × u64 sizes; the frames below `SMALL` bytes, back to back; then the others

and each of the others is received where its object will live: where the top byte of its size says so (`OBJECT`), in a `bytes`.
"""

from __future__ import annotations

import asyncio
import functools
import ssl
import struct
import weakref
from collections.abc import Sequence
from typing import Any, NoReturn

import dask
from dask.utils import parse_bytes
from distributed.comm.addressing import get_address_host
from distributed.comm.core import Comm, CommClosedError
from distributed.comm.tcp import TLS, TLSConnector, TLSListener, convert_stream_closed_error
from distributed.utils import ensure_memoryview
from tornado.iostream import StreamClosedError

from .. import _core
from .._errors import Error, Exhausted
from . import _process, _wire
from ._counters import counters, end_links, links
from ._messages import decode_message, encode_message

__all__ = ["EncryptedComm", "EncryptedConnector", "EncryptedListener"]


SMALL = 4096
"""Frames below this size (bytes) are gathered in front of the others, and read with the message's beginning."""

MOST_FRAMES, MOST_NBYTES = 1 << 24, 1 << 48
"""Of a message; `transload.message-limit` sets the latter."""

OBJECT = 1 << 56
"""Added to the size of a frame that is all of a `bytes` object at the sender."""

_HEAD = struct.Struct("<QQ")
_STEP = 1 << 30  # OpenSSL counts in a C int


class Counts:
    """What went over a connection; bytes are those of frames."""

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


class EncryptedComm(TLS):
    """An established connection."""

    def __init__(self, stream: Any, *args: Any, **kwargs: Any) -> None:
        self._counts = Counts()
        self._most = parse_bytes(dask.config.get("transload.message-limit", MOST_NBYTES))
        self._links: list[int] = []  # its token among those that are counted
        super().__init__(stream, *args, **kwargs)
        weakref.finalize(self, end_links, self._links).atexit = False
        _process.carry(self)
        stream.set_close_callback(functools.partial(_stream_closed, weakref.ref(self)))

    def handshake_info(self) -> dict[str, Any]:
        """Add that this end reads our form to Dask's own facts."""
        says = {**_wire.caller_announcement(self.deserialize), "message-bytes": self._most}
        return {**super().handshake_info(), _wire.KEY: says}

    @staticmethod
    def handshake_configuration(local: dict[str, Any], remote: dict[str, Any]) -> dict[str, Any]:
        """Add the mark by which values are encoded in our form."""
        return {**Comm.handshake_configuration(local, remote), _wire.KEY: True}

    async def read(self, deserializers: Sequence[str] | None = None) -> Any:
        stream = self.stream
        if stream is None:
            raise CommClosedError
        try:
            frames = await self._frames(stream)
        except (StreamClosedError, ssl.SSLError) as error:
            self._ended(error)
        except Error as error:  # no memory for what the peer says is coming
            self.abort()
            raise CommClosedError(f"in {self!r}: {error}") from error
        except BaseException:  # nobody knows what was read already: the connection is of no more use
            self.abort()
            raise
        self._counts.messages_received += 1
        self._counts.nbytes_received += _core.frames_nbytes(frames)
        try:
            return await decode_message(frames, self.deserialize, deserializers, self.allow_offload)
        except EOFError:
            self.abort()
            raise CommClosedError("aborted stream on truncated data") from None

    async def _frames(self, stream: Any) -> list[bytes | memoryview]:
        n, small = _HEAD.unpack(await stream.read_bytes(_HEAD.size))
        if n > MOST_FRAMES or small > min(n * SMALL, self._most):
            raise CommClosedError(f"in {self!r}: a message of {n} frames, {small} bytes of them in small ones")
        beginning = await _received(stream, 8 * n + small)
        told = struct.unpack_from(f"<{n}Q", beginning)
        sizes = [size & (OBJECT - 1) for size in told]
        if any(size > 2 * OBJECT - 1 for size in told):
            raise CommClosedError(f"in {self!r}: a frame of a kind that is not known")
        if sum(size for size in sizes if size < SMALL) != small or sum(sizes) > self._most:
            raise CommClosedError(f"in {self!r}: frames of {sum(sizes)} bytes; {small} in small ones, {self._most} at most")
        frames: list[bytes | memoryview] = []
        at = 8 * n
        for size, as_told in zip(sizes, told, strict=True):
            if size < SMALL:
                frames.append(beginning[at : at + size])
                at += size
            elif as_told != size:
                frames.append(await _received_bytes(stream, size))
            else:
                frames.append(await _received(stream, size))
        return frames

    async def write(self, msg: Any, serializers: Sequence[str] | None = None, on_error: str = "message") -> int:
        if self.stream is None:
            raise CommClosedError
        if self.deserialize:
            msg = _wire.with_request_marked(msg, serializers)
        context = {
            "sender": self.local_info,
            "recipient": self.remote_info,
            **self.handshake_options,
            _wire.SHARES: False,
        }
        given = await encode_message(msg, serializers, on_error, context, self.allow_offload)
        frames = [ensure_memoryview(frame) for frame in given]  # as bytes; empty ones of several dimensions can not be cast
        stream = self.stream
        if stream is None:
            raise CommClosedError
        sizes = [frame.nbytes for frame in frames]
        if (most := self._peers_most()) is not None and sum(sizes) > most:
            error = Exhausted(f"a message of {sum(sizes)} bytes; the peer takes {most}")
            refusal = _wire.with_refusals(msg, error)
            if refusal is None:
                raise error
            return await self.write(refusal, serializers, on_error)
        small = [frame for frame in frames if frame.nbytes < SMALL]
        told = [
            size + OBJECT if size >= SMALL and _core.is_whole_bytes(frame) else size
            for size, frame in zip(sizes, given, strict=True)
        ]
        head = _HEAD.pack(len(frames), sum(map(len, small))) + struct.pack(f"<{len(sizes)}Q", *told)
        try:
            # Each write puts its bytes into the stream's queue at once: messages do not mix.
            stream.write(b"".join((head, *small)))
            for frame in frames:
                for start in range(0, frame.nbytes if frame.nbytes >= SMALL else 0, _STEP):
                    stream.write(frame[start : start + _STEP])
        except StreamClosedError as error:
            self._ended(error)
        size = sum(sizes)
        self._counts.messages_sent += 1
        self._counts.nbytes_sent += size
        counters.wire(size)
        return size

    def _peers_most(self) -> int | None:
        """Return the size (bytes) of the largest message that the other end takes, once its handshake has told that."""
        says = (self.remote_info or {}).get(_wire.KEY)
        most = says.get("message-bytes") if isinstance(says, dict) else None
        return most if isinstance(most, int) else None

    def _ended(self, error: BaseException) -> NoReturn:
        self.stream = None
        self._closed = True
        self._let_go()
        convert_stream_closed_error(self, error)
        raise CommClosedError from error

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


async def _received(stream: Any, nbytes: int) -> memoryview:
    """Receive so many bytes into memory of the pool, aligned to 64 bytes."""
    if nbytes >= _process.POOLED:
        _process.pool_was_used(asyncio.get_running_loop())
    memory = _core.allocate(nbytes)
    await _fill(memory, stream)
    return memory


async def _received_bytes(stream: Any, nbytes: int) -> bytes:
    """Receive so many bytes into a `bytes` object."""
    try:
        received, memory = _core.bytes_to_fill(nbytes)
    except MemoryError as error:
        raise Exhausted(f"no memory for a bytes object of {nbytes} bytes") from error
    await _fill(memory, stream)
    return received


async def _fill(memory: memoryview, stream: Any) -> None:
    for start in range(0, memory.nbytes, _STEP):
        await stream.read_into(memory[start : start + _STEP])


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
        assert isinstance(comm, EncryptedComm)
        says = {**_process.says_on_our_comm(self._server), "message-bytes": comm._most}
        await super().on_connection(comm, {**(handshake_overrides or {}), _wire.KEY: says})
        if not comm.closed():
            host = get_address_host(comm.peer_address)
            comm._links.append(links.accepted(host, _wire.counted_there(comm), comm._counts.stats))

    @property
    def contact_address(self) -> str:
        if self.default_host is None:
            self.default_host = _process.host_of(self._server, [self.get_host_port()])
        return str(super().contact_address)
