"""One value to Dask's (header, frames) and back, and the judgement who may be sent our form.

A receiver says that it takes ours in one of two ways (docs/dask.md, "How peers agree"):

- *pull*: it asked for the value, and its list of deserializers, which travels with the request, ends in `MARKER`;
- *push*: nobody asked (scatter, an actor's argument, publish); the *listening* end of the connection put `KEY` with
  `push` into its handshake. Listeners only: an answer to somebody's request goes by the request's list, so a stock
  client's `gather` stays stock although the scheduler that fetches for it has transload.

Whoever says nothing is sent what stock Dask sends.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterable, Sequence
from typing import Any

import dask
from distributed.metrics import context_meter
from distributed.protocol.serialize import Serialize, Serialized

import transload

from .. import _core
from .._errors import Unsendable
from .._trust import is_strict
from .._walk import decode as walk_decode
from .._walk import encode as walk_encode
from ._counters import counters, members, offered, road, value_pickles

__all__ = [
    "COUNTS",
    "DEVICE",
    "KEY",
    "MARKER",
    "SHARES",
    "Refusal",
    "StockPeer",
    "announcement",
    "carries_ours",
    "counted_there",
    "decode",
    "decode_control",
    "encode",
    "encode_control",
    "encode_spilled",
    "on_our_comm",
    "own_frames",
    "with_marker",
    "with_refusals",
    "with_request_marked",
]

logger = logging.getLogger("distributed.transload")

MARKER = f"transload/{transload.FORMAT_VERSION}"
"""Dask family of our messages, and the name that a receiver lists. It comes last: stock peers never get past "pickle"."""

TOPIC = "transload"
"""Event topic on which a worker or a client tells the scheduler that it has transload, or a worker that no longer."""

COUNTS = "transload_counts"
"""The request by which a scheduler asks a worker what it has counted."""

SHARES = "transload-shares"
"""In the context of an encoding: the other end of the connection is in this process, and gets the frames themselves."""

DEVICE = "transload-device"
"""In the context of an encoding: the other end of the connection takes a GPU's memory as it is."""

DEVICE_LEAST = 128 * 1024
"""Bytes of a GPU's memory from which on it stays there on `transload://`: fewer are brought to host memory as quickly as the ends agree (docs/measuring.md)."""

DEVICE_PACK = 4 * 1024 * 1024
"""Bytes of a piece of a GPU's memory up to which eight and more are gathered on other comms that take it as it is (`ucxx://`): a frame costs more there than its copy."""

KEY = "transload"
"""Our key in a connection's handshake: `{"format": int, "push": bool, "publish": bool}`, on our comm with `"counted": bool`."""

LARGE = 64 * 1024
"""From this size (bytes) on a frame is worth a buffer of its own on arrival; smaller ones are copied into place."""

TLS_FRAME_LIMIT = 2**31 - 64
"""Largest frame (bytes) over TLS: `distributed.comm.tcp.TLS` stays within a C int."""

REPORT = b'{"transload-report":'
"""How the text of a process's counters begins."""

declined = threading.Event()
"""A peer that has transload did not take a push when its connection opened: a scheduler of a cluster that was mixed then."""

_LEAD = memoryview(bytearray())


class StockPeer(transload.Unsupported):
    """Our form was on its way to a peer without transload; the sender repeats the call in Dask's own."""


class Refusal:
    """Stands where a value should be that could not be brought here; the task that needs it gets `error`.

    Never a value: it is not sent, and a task that depends on it does not run.
    """

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __repr__(self) -> str:
        return f"<Refusal: {self.error!r}>"


# ── who may be sent what ──────────────────────────────────────────────────────────────────────────────────────


def announcement(push: bool = False, publish: bool = False) -> dict[str, Any]:
    """Return what this process says of itself in a handshake."""
    return {"format": transload.FORMAT_VERSION, "push": push, "publish": publish}


def caller_announcement(opens: bool) -> dict[str, Any]:
    """Return what the connecting end of `transload://` says of itself, which `opens` the values that it is sent or not.

    A scheduler does not: it asks for others. Then nothing is said of pushes, which its answer could change. "counted"
    tells whether the cluster sees what this process counts.
    """
    says = announcement(push=True, publish=True) if opens else {"format": transload.FORMAT_VERSION}
    return {**says, "counted": bool(members)}


def counted_there(comm: Any) -> bool:
    """Tell whether the end that opened a connection of ours is counted by the cluster, as it said in the handshake."""
    says = (comm.remote_info or {}).get(KEY)
    return isinstance(says, dict) and bool(says.get("counted"))


def judge(serializers: Sequence[str] | None, context: dict[str, Any] | None) -> tuple[bool, bool]:
    """Return (the receiver takes our form, it takes family "pickle" in it)."""
    if serializers is not None:
        return MARKER in serializers, "pickle" in serializers
    peer = ((context or {}).get("recipient") or {}).get(KEY) or {}
    if peer.get("format") != transload.FORMAT_VERSION or road.get() == "stock":
        return False, True
    takes = peer.get("publish" if road.get() == "publish" else "push")
    if takes is False:
        declined.set()
    return bool(takes), True


def on_our_comm(context: dict[str, Any] | None) -> bool:
    """Tell whether a value is on its way over `transload://`: both ends have transload, and frames arrive as they are, each aligned."""
    return bool(context and context.get(KEY))


def with_request_marked(message: Any, serializers: Sequence[str] | None) -> Any:
    """Return a message for `transload://`; where it is a request, it says that its sender takes our form.

    Whoever forwards the request (the scheduler) passes that on.
    """
    if serializers is None and type(message) is dict and "op" in message and "reply" in message:
        return message if "serializers" in message else {**message, "serializers": with_marker(None)}
    return message


def with_refusals(message: Any, error: BaseException) -> dict[str, Any] | None:
    """Return an answer that could not be sent with `error` in the place of its values; None for what is no answer or has none.

    Who asked for them would hear nothing, and Dask's clients ask again for ever.
    """
    if type(message) is not dict or "op" in message or "status" not in message:
        return None
    found = []

    def refuse(x: Any) -> Any:
        if isinstance(x, Serialize) and not isinstance(x.data, Refusal):
            found.append(x)
            return Serialize(Refusal(error))
        return {k: refuse(v) for k, v in x.items()} if type(x) is dict else x

    answer: dict[str, Any] = refuse(message)
    return answer if found else None


def own_frames(frames: Iterable[Any]) -> list[Any]:
    """Return copies of frames that somebody could write into."""
    return [frame if type(frame) is bytes else _core.copied((frame,))[0] for frame in frames]


def carries_ours(message: object) -> bool:
    """Tell whether a message that the scheduler holds unopened has a value in our form in it."""
    if isinstance(message, Serialized):
        return str(message.header.get("serializer", "")).startswith("transload/")
    if isinstance(message, dict):
        return any(carries_ours(v) for v in message.values())
    return isinstance(message, (list, tuple)) and any(carries_ours(v) for v in message)


def _is_dasks_own(value: object) -> bool:
    """Futures, actor handles, collections (task graphs), pickled exceptions and our own reports are not data."""
    if type(value) is bytes:
        # An exception or traceback that error_message() has pickled. It may be kept by the scheduler and shown to any
        # client, so it must stay readable for all; data that looks the same travels as Dask's raw bytes, just as well.
        return value[:1] == b"\x80" and value[-1:] == b"." or value.startswith(REPORT)
    return str(type(value).__module__).partition(".")[0] in ("dask", "distributed")


_UNMETERED = contextlib.nullcontext()
_listeners = getattr(context_meter, "_callbacks", None)


def _metered(label: str) -> contextlib.AbstractContextManager[None]:
    """As ``context_meter.meter(label)``, which takes as long as a small message: not asked where nobody listens."""
    if _listeners is not None and not _listeners.get():
        return _UNMETERED
    meter: contextlib.AbstractContextManager[None] = context_meter.meter(label)
    return meter


# ── encode ────────────────────────────────────────────────────────────────────────────────────────────────────


def encode(
    stock: Any,
    x: Any,
    serializers: Sequence[str] | None,
    on_error: str,
    context: dict[str, Any] | None,
    size: int | None,
    *,
    speaking: bool,
) -> tuple[dict[str, Any], list[Any]]:
    """Encode a value for a connection: our form where the receiver takes it, else what `stock` makes of it.

    `stock` is Dask's `serialize_and_split`, the positional parameters behind it are its own, and `speaking` tells
    whether transload is on in this process. A value that we cannot encode goes to `stock` after all where pickle is
    allowed, else becomes an error: raised here when `on_error` is "raise", else by the receiver.
    """
    value = x.data if isinstance(x, Serialize) else x
    ours, pickle = judge(serializers, context) if speaking else (False, True)
    where = road.get() or ("reply" if serializers is not None else "other")
    if isinstance(value, Refusal):
        return _refuse(value.error, ours)
    if _is_dasks_own(value):
        return stock(x, serializers=serializers, on_error=on_error, context=context, size=size)
    if not ours:
        if serializers is not None and on_our_comm(context) and not (context or {}).get(DEVICE):
            serializers = [name for name in serializers if name != "cuda"]
        if transload.is_strict():  # all that Dask writes holds a pickle: the value, or its class
            return _refuse(transload.Unsupported(f"a {type(value).__qualname__} for a peer that takes Dask's own form alone, which is a pickle: strict() is on"), ours)
        return _counted(stock, x, where, serializers=serializers, on_error=on_error, context=context, size=size)
    try:
        with _metered("serialize"):
            return _ours(value, pickle, where, context, cuda=_takes_cuda(serializers, context))
    except Exception as error:
        reason = error
    if pickle and not transload.is_strict() and not isinstance(reason, Unsendable):
        logger.debug("transload cannot encode a %s: %s; Dask tries", type(value).__name__, reason)
        try:
            return _counted(stock, x, where, serializers=serializers, on_error="raise", context=context, size=size)
        except Exception:
            logger.debug("nor can Dask", exc_info=True)
    if not isinstance(reason, transload.Error):
        reason = transload.Unsupported(
            f"{type(value).__qualname__} cannot be encoded: {type(reason).__name__}: {reason}"
        )
    if on_error == "raise":
        raise reason
    return _refuse(reason, ours)


def encode_spilled(stock: Any, x: Any, kwargs: dict[str, Any], *, speaking: bool) -> tuple[dict[str, Any], list[Any]]:
    """Encode a value for the disk (`serialize_bytelist`); parameters as for `encode`."""
    if isinstance(x, Refusal):
        header = {"serializer": MARKER, "refusal": type(x.error).__name__}
        return header, [str(x.error).encode()]
    if (
        kwargs.get("on_error") != "raise"
        or kwargs.get("serializers") is not None
        or isinstance(x, (Serialize, Serialized))
    ):
        return stock(x, **kwargs)  # not the worker's spill buffer: bytes for somebody we know nothing of
    if _is_dasks_own(x):
        return stock(x, **kwargs)
    if speaking:
        try:
            with _metered("serialize"):
                return _ours(x, True, "spill", None)
        except Exception as error:
            if transload.is_strict() or isinstance(error, Unsendable):
                raise
            logger.debug("transload cannot encode a %s: %s; Dask tries", type(x).__name__, error)
    return _counted(stock, x, "spill", **kwargs)


def _takes_cuda(serializers: Sequence[str] | None, context: dict[str, Any] | None) -> bool:
    """Tell whether a GPU's memory can stay there on its way: our comm says so, or the receiver asked for family "cuda" and no connection is named that takes host memory only.

    UCX names none. A list with "cuda" may be the user's own, for all connections.
    """
    if context is None:
        return serializers is not None and "cuda" in serializers
    if on_our_comm(context):
        return bool(context.get(DEVICE))
    address = str((context.get("recipient") or {}).get("address", ""))
    return address.startswith("ucx") and (serializers is None or "cuda" in serializers)


def _ours(
    value: object, pickle: bool, where: str, context: dict[str, Any] | None, *, cuda: bool = False
) -> tuple[dict[str, Any], list[Any]]:
    families: tuple[str, ...] = _BOTH if pickle and not is_strict() else _HOST
    compression, level = _compression(context)
    if cuda and compression is None:
        sizes = {"device_least": DEVICE_LEAST} if on_our_comm(context) else {"device_pack": DEVICE_PACK}
        head, frames, families = walk_encode(value, ("cuda", *families), **sizes)
    else:
        head, frames, families = walk_encode(value, families)
    header: dict[str, Any] = {"serializer": MARKER, "road": where}
    raw = stored = len(head) + _core.frames_nbytes(frames)
    if compression is not None:
        with _metered("compress"):
            head, frames, _ = _core.store(head, frames, compression, level, False)
        header["raw"] = raw
        stored = len(head) + _core.frames_nbytes(frames)
    row = ("encode", where, _ROW_NAMES.get(families) or "transload:" + "+".join(families))
    counters.data(*row, frames=len(frames), nbytes=raw, stored=stored, pickled="pickle" in families)
    if on_our_comm(context) and compression is None:
        if (context or {}).get("compression") is not None:
            offered(row, header, [head, *frames])
        return header, [head, *frames]
    parts: list[Any] = [_own_buffer(frame) for frame in frames]
    if any(part.nbytes >= LARGE for part in parts) and "cuda" not in families:
        # Dask's receiver puts the first buffer that is not `bytes` behind the headers, in their allocation: misaligned
        # (dot 8-11x slower). An empty one takes that place, costs nothing, and every real frame gets its own buffer.
        header["lead"] = True
        parts.insert(0, _LEAD)
    parts.insert(0, head)
    # No split-* fields: frames are not cut into Dask's 64 MiB shards, whose merging copies everything once more.
    address = str(((context or {}).get("recipient") or {}).get("address", ""))
    if address.startswith("tls://"):
        _split(header, parts, TLS_FRAME_LIMIT)
    # What is False Dask neither compresses nor opens.
    if compression is not None:  # it looks at the head alone; the frames were seen to
        header["compression"] = (None, *[False] * (len(parts) - 1))
    elif "cuda" in families:
        header["compression"] = tuple(False if isinstance(part, _core.DeviceMemory) else None for part in parts)
    offered(row, header, parts)
    return header, parts


_HOST, _BOTH, _NAMES = ("host",), ("host", "pickle"), ("host", "names")
_ROW_NAMES: dict[tuple[str, ...], str] = {("host",): "transload:host", ("pickle",): "transload:pickle"}


def encode_control(value: object) -> tuple[dict[str, Any], list[Any]] | None:
    """Encode what Dask would pickle for itself on `transload://`: tasks with their arguments, values of Variables and Queues.

    Names that are not trusted may stand in it, as the peers of one cluster run each other's tasks anyway; a pickle may not. None:
    it holds something that only pickle takes, as a lambda, and goes Dask's way whole.
    """
    try:
        if type(value).__module__ == "dask._task_spec" and _is_nameless(getattr(value, "func", None)):
            return None
        head, frames, families = walk_encode(value, _NAMES)
    except Exception:
        logger.debug("transload cannot encode a %s; Dask pickles it", type(value).__name__, exc_info=True)
        return None
    family = "transload:names" if "pickle" in families else "transload:host"
    counters.data("encode", "control", family, frames=len(frames), nbytes=len(head) + _core.frames_nbytes(frames))
    return {"serializer": MARKER}, [head, *frames]


def _is_nameless(function: object) -> bool:
    """Spare a walk that would end at this function of a task."""
    return "<" in getattr(function, "__qualname__", "") or getattr(function, "__module__", None) == "__main__"


def _compression(context: dict[str, Any] | None) -> tuple[str | None, int | None]:
    """Return (compression, level) for our frames on this connection.

    Dask's handshake has settled the codec: none on one host and where the ends want different ones. lz4 and zstd we write
    ourselves, which spares the receiver a copy and needs no Python package; None leaves the frames to Dask (snappy, zlib, and
    whatever it does without a connection).
    """
    agreed = (context or {}).get("compression")
    if agreed == "zstd":
        return "zstd", dask.config.get("distributed.comm.zstd.level")
    if agreed == "lz4":
        return ("auto" if dask.config.get("distributed.comm.compression") == "auto" else "lz4"), None
    return None, None


def _own_buffer(frame: Any) -> Any:
    """Return `frame` as a memoryview that Dask's writer does not take for `bytes`, which it would pack together; a GPU's as it is."""
    if isinstance(frame, _core.DeviceMemory):
        return frame
    view = memoryview(frame)
    if isinstance(view.obj, bytes) and view.nbytes:
        try:
            import numpy
        except ImportError:
            return view
        return numpy.frombuffer(view, "u1").data
    return view


def _split(header: dict[str, Any], frames: list[Any], limit: int) -> None:
    """Cut frames above `limit` bytes in place; Dask's own fields in `header` tell the receiver how to join them."""
    if all(memoryview(frame).nbytes <= limit for frame in frames):
        return
    pieces: list[memoryview] = []
    counts: list[int] = []
    offsets: list[int] = []
    for frame in [memoryview(frame) for frame in frames]:
        offsets.append(len(pieces))
        pieces += [frame[i : i + limit] for i in range(0, frame.nbytes, limit)] or [frame]
        counts.append(len(pieces) - offsets[-1])
    header["split-num-sub-frames"], header["split-offsets"] = tuple(counts), tuple(offsets)
    frames[:] = pieces


def _refuse(error: BaseException, ours: bool) -> tuple[dict[str, Any], list[bytes]]:
    """Return the message whose decoding raises `error`, by name where it is ours."""
    text = str(error) if isinstance(error, transload.Error) else f"{type(error).__name__}: {error}"
    if ours:
        return {"serializer": MARKER, "refused": type(error).__name__}, [text.encode()]
    return {"serializer": "error"}, [text.encode()]


def _counted(stock: Any, x: Any, where: str, **kwargs: Any) -> tuple[dict[str, Any], list[Any]]:
    """Let Dask encode, and count."""
    with value_pickles() as calls:
        header, frames = stock(x, **kwargs)
    families: set[str] = set()
    messages = _families(header, families)
    if calls[0]:
        families.add("pickle")
    row = ("encode", where, "+".join(sorted(families)))
    counters.data(
        *row,
        messages=messages,
        frames=len(frames),
        nbytes=_core.frames_nbytes(frames),
        pickled="pickle" in families,
    )
    offered(row, header, frames)
    return header, frames


def _families(header: dict[str, Any], found: set[str]) -> int:
    """Put the families of a header of Dask's and of its sub-headers into `found`; return how many messages it holds."""
    if "is-collection" in header:
        return sum(_families(sub, found) for sub in header["sub-headers"])
    found.add(header["serializer"])
    return 1


# ── decode ────────────────────────────────────────────────────────────────────────────────────────────────────


def decode(header: dict[str, Any], frames: Sequence[Any]) -> Any:
    """Rebuild a value from our form; the loads function of the Dask family `MARKER`."""
    if "refused" in header:
        raise _error(header["refused"], bytes(frames[0]).decode(errors="replace"))
    if "refusal" in header:
        return Refusal(_error(header["refusal"], bytes(frames[0]).decode(errors="replace")))
    head, payload = frames[0], frames[2 if header.get("lead") else 1 :]
    # Where a frame lies misaligned (small ones behind the headers, spilled ones in their file) or is read-only (what a
    # decompressor made), loads copies what needs it.
    value = _decoded(head, payload, _HOST if is_strict() else _BOTH)
    stored = _core.frames_nbytes((head, *payload))
    raw = header.get("raw", stored)
    counters.data("decode", header.get("road", "reply"), "transload", frames=len(payload), nbytes=raw, stored=stored)
    return value


def _decoded(head: Any, frames: Sequence[Any], families: tuple[str, ...]) -> Any:
    """Rebuild a value; the configuration `transload.device` says where a GPU's memory goes that comes in host memory.

    A number: to this device. ``host``: where no GPU is, it stays in host memory.
    """
    device = dask.config.get("transload.device", None)
    try:
        return walk_decode(head, frames, families, None, device if type(device) is int else None)
    except transload.Unsupported:
        if _core.device_count() > 0 or device != "host":
            raise
    return walk_decode(head, frames, families, None, _core.HOST_TWIN)


def decode_control(header: dict[str, Any], frames: Sequence[Any]) -> Any:
    """Rebuild what `encode_control` made.

    Raises
    ------
    Malformed, Untrusted
        For another format of it, and for a pickle in it.
    """
    if header.get("serializer") != MARKER or not frames:
        raise transload.Malformed(f"a sub-header of {header.get('serializer')!r}, where {MARKER} or a pickle belongs")
    value = _decoded(frames[0], frames[1:], _NAMES)
    nbytes = _core.frames_nbytes(frames)
    counters.data("decode", "control", "transload", frames=len(frames) - 1, nbytes=nbytes)
    return value


def _error(name: str, text: str) -> Exception:
    kind = getattr(transload, name, None)
    if isinstance(kind, type) and issubclass(kind, transload.Error):
        return kind(text)
    return transload.Failed(text)


def with_marker(deserializers: Iterable[str] | None, scheme: str = "tcp") -> list[str]:
    """Return a list of deserializers with ours at its end; `None` is Dask's default for connections of `scheme`.

    "error" stands before it so that a stock peer that can use nothing else in the list says so in plain words instead
    of looking for a family it does not have. Under `strict()` pickle leaves the list.
    """
    if deserializers is None:
        # On UCX Dask puts "cuda" first only where there is no list; on TCP it must not be there.
        deserializers = ("cuda", "dask", "pickle") if scheme.startswith("ucx") else ("dask", "pickle")
    names = list(deserializers)
    names = [n for n in names if n not in ("error", MARKER) and not (n == "pickle" and transload.is_strict())]
    return [*names, "error", MARKER]
