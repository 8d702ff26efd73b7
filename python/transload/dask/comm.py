"""The comm `transload://`: Dask's messages over the engine in C++ (docs/transport.md).

Registered by entry point, so `LocalCluster(protocol="transload")`, `dask scheduler --protocol transload` and addresses
`transload://host:port` work wherever transload is installed. What a message is made of is Dask's: a document and side
frames (`encode_message`, `decode_message`); values in it go in our form (docs/dask.md).
"""

from __future__ import annotations

import asyncio
import errno
import inspect
import logging
import os
import weakref
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar, NoReturn

import dask
from dask.utils import parse_bytes, parse_timedelta
from distributed.comm.addressing import parse_host_port, unparse_host_port
from distributed.comm.core import BaseListener, Comm, CommClosedError, Connector, FatalCommClosedError
from distributed.comm.tcp import BaseTCPBackend
from distributed.comm.utils import ensure_concrete_host
from distributed.scheduler import Scheduler
from distributed.utils import ensure_memoryview

from .. import _core
from .._errors import Disconnected, Error, Unsupported
from . import _process, _wire
from ._counters import counters, end_links, links
from ._messages import decode_message, encode_message
from ._tls import EncryptedConnector, EncryptedListener

__all__ = ["Backend", "TLSBackend", "TransloadComm", "TransloadConnector", "TransloadListener"]

logger = logging.getLogger("distributed.comm.transload")

TLS_PREFIX = "transload+tls://"


# ── the engine and the event loop ────────────────────────────────────────────────────────────────────────────

_bells: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _core.Bell] = weakref.WeakKeyDictionary()


def _log(line: str) -> None:
    logger.warning("%s", line)


def _bell() -> _core.Bell:
    """Return what the engine rings for the running event loop."""
    loop = asyncio.get_running_loop()
    bell = _bells.get(loop)
    if bell is None:
        closed = [other for other in list(_bells) if other.is_closed()]  # nobody tells us when a loop closes
        for other in closed:
            _bells.pop(other).silence()
        if closed:
            _abort_those_of_closed_loops()
        bell = _core.Bell(_log)
        loop.add_reader(bell.fileno(), bell.answer)
        _bells[loop] = bell  # last: one that nobody watches would leave everybody waiting
    return bell


def _abort_those_of_closed_loops() -> None:
    """End connections for which somebody waits in a loop that is closed: their futures keep them, and they keep their peers."""
    for comm in _process.carried():
        if isinstance(comm, TransloadComm) and comm._loop.is_closed():
            comm.abort()


def _options(deserialize: bool) -> dict[str, float]:
    """Return what the configuration says of connections, for the engine; `deserialize`: what comes is opened at this end."""
    config = dask.config.get
    options = {
        "hello_timeout": parse_timedelta(config("distributed.comm.timeouts.connect"), default="seconds"),
        "stall_timeout": parse_timedelta(config("distributed.comm.timeouts.tcp"), default="seconds"),
        "backlog": int(config("distributed.comm.socket-backlog")),
        "same_process": bool(config("transload.same-process", True)),
        "exports": bool(config("transload.cuda-ipc", True)),
    }
    if deserialize:  # who only forwards, as a scheduler, needs no GPU
        device = config("transload.device", None)
        if type(device) is int and device >= _core.HOST_TWIN:
            options["device"] = device
        elif device in (None, "auto"):
            options["device_of_thread"] = _core.may_have_devices()
        elif device != "host":
            raise ValueError(f"transload.device is {device!r}; it is a device's number, 'auto' or 'host'")
    for ours, theirs in (("streams", "streams"), ("local_streams", "local-streams")):
        if (n := config(f"transload.{theirs}", None)) not in (None, "auto"):
            options[ours] = int(n)
    for ours, theirs in (("window", "window"), ("send_bound", "send-bound"), ("message_most", "message-limit")):
        if (n := config(f"transload.{theirs}", None)) is not None:
            options[ours] = parse_bytes(n)
            if not 0 <= options[ours] < 1 << 63:
                raise ValueError(f"transload.{theirs} is {n}; it is a number of bytes, from 0 to 2**63 - 1")
    return options


def _is_encrypted(prefix: str, connection_args: dict[str, Any]) -> bool:
    """Tell whether to speak TLS: where there are certificates (an `ssl_context`), and always on `transload+tls://`."""
    return prefix == TLS_PREFIX or connection_args.get("ssl_context") is not None


def _refuse_in_clear(prefix: str, address: str, connection_args: dict[str, Any]) -> None:
    """Raise where encryption is required: Dask checks that for its own schemes only, and would run in clear."""
    if connection_args.get("require_encryption"):
        raise RuntimeError(
            f"encryption required by Dask configuration, refusing communication from/to {prefix + address!r} without an "
            "`ssl_context` (a Security with certificates)"
        )


# ── comm ─────────────────────────────────────────────────────────────────────────────────────────────────────


class TransloadComm(Comm):
    """An established connection. Belongs to the event loop in which it was made."""

    def __init__(self, connection: _core.Connection, local_addr: str, peer_addr: str, deserialize: bool = True) -> None:
        self._connection: _core.Connection | None = connection
        super().__init__(deserialize=deserialize)
        self._local_addr = local_addr
        self._peer_addr = peer_addr
        self._loop = asyncio.get_running_loop()
        stats = connection.stats()
        self._shares = stats["path"] == "process"
        self._takes_device = stats["takes_device"]
        self.keeps = False  # what comes is kept for long, by a scheduler: graphs, Variables, published datasets
        self._unopened: list[Any] | None = None  # frames of a message that a cancelled read has left
        self._last_info: dict[str, Any] = {}
        self._last_context: dict[str, Any] | None = None
        self._links: list[int] = []  # its token among those that are counted
        self._finalizer = weakref.finalize(self, _close_dangling, connection, repr(self), self._links)
        self._finalizer.atexit = False
        _process.carry(self)

    @property
    def local_address(self) -> str:
        return self._local_addr

    @property
    def peer_address(self) -> str:
        return self._peer_addr

    def handshake_info(self) -> dict[str, Any]:
        """Add that this end reads our form to Dask's own facts."""
        return {**super().handshake_info(), _wire.KEY: _wire.caller_announcement(self.deserialize)}

    async def read(self, deserializers: Sequence[str] | None = None) -> Any:
        connection = self._connection
        if connection is None:
            raise CommClosedError
        while (frames := self._unopened or self._received(connection)) is None:
            # A read that is cancelled here leaves the message to the next one.
            future = self._loop.create_future()
            connection.when_readable(future)
            await future
        self._unopened = None
        if _core.frames_nbytes(frames) >= _process.POOLED:
            _process.pool_was_used(self._loop)
        if self.keeps and self._shares:  # what its sender goes on to change must not change here
            frames = _core.copied(frames)
        try:
            return await decode_message(frames, self.deserialize, deserializers, self.allow_offload)
        except asyncio.CancelledError:
            self._unopened = frames  # opened anew by the next read
            raise
        except EOFError:
            self.abort()
            raise CommClosedError("aborted stream on truncated data") from None

    def _received(self, connection: _core.Connection) -> list[Any] | None:
        try:
            return connection.receive()
        except Error as error:
            self._ended(error)

    async def write(self, msg: Any, serializers: Sequence[str] | None = None, on_error: str = "message") -> int:
        if self._connection is None:
            raise CommClosedError
        if self.deserialize:
            msg = _wire.with_request_marked(msg, serializers)
        frames = await encode_message(msg, serializers, on_error, self._context(), self.allow_offload)
        connection = self._connection
        if connection is None:
            raise CommClosedError
        try:
            try:
                sent = connection.send(frames)
            except BufferError:  # one is not contiguous: Dask copies such, too
                sent = connection.send([_in_one_piece(frame) for frame in frames])
            if not sent:
                # A write that is cancelled here has handed its message over: it arrives whole.
                future = self._loop.create_future()
                connection.when_sent(future)
                await future
                connection.check_sent()
        except Error as error:
            # A peer that lies has ended the connection; a message that it does not take has not.
            if isinstance(error, Disconnected) or connection.closed():
                self._ended(error)
            refusal = _wire.with_refusals(msg, error)
            if refusal is None:
                raise
            return await self.write(refusal, serializers, on_error)
        size = _core.frames_nbytes(frames)
        counters.wire(size)
        return size

    def _context(self) -> dict[str, Any]:
        """Return what the families are told of the connection; it changes once, by the handshake."""
        if self._last_context is None or self._last_context["recipient"] is not self.remote_info:
            self._last_context = {
                "sender": self.local_info,
                "recipient": self.remote_info,
                **self.handshake_options,
                _wire.KEY: True,
                _wire.SHARES: self._shares,
                _wire.DEVICE: self._takes_device,
            }
        return self._last_context

    def _ended(self, error: Error) -> NoReturn:
        self.abort()
        raise CommClosedError(f"in {self!r}: {error}") from error

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        self._last_info = connection.stats()
        try:
            if not connection.closed():
                future = self._loop.create_future()
                connection.close(future)
                await future
        finally:
            self._let_go(connection)  # now, when what was written last has been counted

    def abort(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()
            self._let_go(connection)

    def _let_go(self, connection: _core.Connection) -> None:
        self._finalizer.detach()
        self._last_info = connection.stats()
        end_links(self._links)
        _process.put_down(self)

    def closed(self) -> bool:
        return self._connection is None or self._connection.closed()

    @property
    def extra_info(self) -> dict[str, Any]:
        """What went over the connection, and by which path."""
        return self._connection.stats() if self._connection is not None else self._last_info


def _in_one_piece(frame: Any) -> Any:
    try:
        return ensure_memoryview(frame)
    except TypeError:  # a GPU's memory
        return frame


def _close_dangling(connection: _core.Connection, name: str, tokens: list[int]) -> None:
    if not connection.closed():
        logger.warning("Closing dangling connection in %s", name)
        connection.abort()
    end_links(tokens)


# ── connector and listener ───────────────────────────────────────────────────────────────────────────────────


class TransloadConnector(Connector):
    prefix: ClassVar[str] = "transload://"

    async def connect(self, address: str, deserialize: bool = True, **connection_args: Any) -> Comm:
        if _is_encrypted(self.prefix, connection_args):
            return await EncryptedConnector(self.prefix).connect(address, deserialize, **connection_args)
        _refuse_in_clear(self.prefix, address, connection_args)
        host, port = parse_host_port(address)
        future: asyncio.Future[_core.Connection] = asyncio.get_running_loop().create_future()
        try:
            give_up = _core.connect(_bell(), host, port, _options(deserialize), future)
            try:
                connection = await future
            except asyncio.CancelledError:
                give_up()
                raise
        except Unsupported as error:  # no transload peer, or one that refuses: trying again is no use
            raise FatalCommClosedError(f"{self.prefix + address}: {error}") from error
        except Error as error:
            raise CommClosedError(f"{self.prefix + address}: {error}") from error
        local = self.prefix + unparse_host_port(*connection.local_address())
        comm = TransloadComm(connection, local, self.prefix + address, deserialize)
        comm._links.append(links.opened(comm.peer_address, connection.stats))
        return comm


class TransloadListener(BaseListener):
    prefix: ClassVar[str] = "transload://"

    def __init__(
        self,
        address: str,
        comm_handler: Callable[[Comm], Awaitable[None] | None],
        deserialize: bool = True,
        allow_offload: bool = True,
        default_host: str | None = None,
        default_port: int = 0,
        **connection_args: Any,
    ) -> None:
        super().__init__()
        _refuse_in_clear(self.prefix, address, connection_args)
        self.ip, self.port = parse_host_port(address, default_port)
        self.comm_handler = comm_handler
        self.deserialize = deserialize
        self.allow_offload = allow_offload
        self.default_host = default_host
        self._listener: _core.Listener | None = None
        self._bound: list[tuple[str, int]] = []
        self._serving: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        _process.listens(self._server)
        try:
            self._listener = _core.listen(_bell(), self.ip, self.port, _options(self.deserialize), self._accepted)
        except Error as error:
            raise _os_error(str(error)) from error
        self._bound = self._listener.addresses()
        _process.carry(self)

    def stop(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.stop()
            _process.listens_no_more(self._server)
            _process.put_down(self)

    @property
    def _server(self) -> object:
        return getattr(self.comm_handler, "__self__", None)

    def _accepted(self, connection: _core.Connection) -> None:
        task = asyncio.ensure_future(self._serve(connection))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, connection: _core.Connection) -> None:
        if self._listener is None:
            connection.abort()  # stopped since: nobody would end this handshake
            return
        peer = self.prefix + unparse_host_port(*connection.peer_address())
        local = self.prefix + unparse_host_port(*connection.local_address())
        comm = TransloadComm(connection, local, peer, self.deserialize)
        comm.allow_offload = self.allow_offload
        comm.keeps = isinstance(self._server, Scheduler)
        try:
            await self.on_connection(comm)
        except CommClosedError:
            logger.info("Connection from %s closed before handshake completed", peer)
            return
        except BaseException as error:
            comm.abort()
            if not isinstance(error, Error):
                raise
            logger.warning("refused %s in its handshake: %s", peer, error)
            return
        if comm._connection is not None:
            host, counted = connection.peer_address()[0], _wire.counted_there(comm)
            comm._links.append(links.accepted(host, counted, connection.stats))
        served = self.comm_handler(comm)
        if inspect.isawaitable(served):
            await served

    async def on_connection(self, comm: Comm, handshake_overrides: dict[str, Any] | None = None) -> None:
        says = _process.says_on_our_comm(self._server)
        await super().on_connection(comm, {**(handshake_overrides or {}), _wire.KEY: says})

    def _address(self) -> tuple[str, int]:
        if not self._bound:
            raise ValueError("invalid operation on non-started TransloadListener")
        return self._bound[0]

    @property
    def listen_address(self) -> str:
        return self.prefix + unparse_host_port(*self._address())

    @property
    def contact_address(self) -> str:
        host, port = self._address()
        default = self.default_host or _process.host_of(self._server, self._bound)
        return self.prefix + unparse_host_port(ensure_concrete_host(host, default), port)


def _os_error(text: str) -> OSError:
    """Return the system's error that `text` ends with: Dask tries the next port of a range by its number."""
    for number in (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES):
        if text.endswith(os.strerror(number)):
            return OSError(number, text)
    return OSError(text)


class Backend(BaseTCPBackend):
    """The scheme `transload`; addresses are those of TCP."""

    _connector_class = TransloadConnector
    _listener_class = TransloadListener

    def get_listener(
        self, loc: str, handle_comm: Callable[[Comm], Any], deserialize: bool, **connection_args: Any
    ) -> BaseListener:
        prefix = self._listener_class.prefix
        if _is_encrypted(prefix, connection_args):
            return EncryptedListener(prefix, loc, handle_comm, deserialize, **connection_args)
        return self._listener_class(loc, handle_comm, deserialize, **connection_args)


class _TLSConnector(TransloadConnector):
    prefix = TLS_PREFIX


class _TLSListener(TransloadListener):
    prefix = TLS_PREFIX


class TLSBackend(Backend):
    """The scheme `transload+tls`: never in clear."""

    _connector_class = _TLSConnector
    _listener_class = _TLSListener
