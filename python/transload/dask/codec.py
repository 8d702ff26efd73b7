"""Dask's message codec: a drop-in for `dumps`, `loads`, `serialize`, `deserialize` and their kin of `distributed.protocol`.

The bytes are Dask's own (a msgpack document and side frames), so either end may be stock. What differs from Dask's code:

- documents are written and read by `transload._core`; msgpack-python is asked for ext types and 32-bit floats only;
- a class in a stock header is *parsed*: its pickle is nine opcodes that give a name, and nothing is run (`class_of`);
- a header can be read twice, and a message that holds an object which only pickle takes is walked once, so that no frame
  is sent twice;
- a frame that was not split is handed on as it came.
"""

from __future__ import annotations

import functools
import importlib
import logging
import sys
import traceback
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar, cast

import msgpack
from dask._task_spec import GraphNode, Task
from dask.utils import typename
from distributed.metrics import context_meter
from distributed.protocol import core as _stock_core
from distributed.protocol import pickle as _pickle
from distributed.protocol.compression import compressions, decompress, maybe_compress
from distributed.protocol.utils import (
    frame_split_size,
    host_array_from_buffers,
    merge_memoryviews,
    pack_frames_prelude,
    unpack_frames,
)
from distributed.utils import ensure_memoryview, has_keyword

from .. import _core, _tables
from .._errors import Failed, Malformed, Untrusted
from .._trust import is_strict
from . import _wire

__all__ = [
    "class_of",
    "deserialize",
    "deserialize_bytes",
    "dumps",
    "loads",
    "merge_and_deserialize",
    "serialize",
    "serialize_and_split",
    "serialize_bytelist",
    "serialize_bytes",
]

logger = logging.getLogger("distributed.protocol.core")

# The attribute of the package that goes by this name is a function.
_stock: Any = importlib.import_module("distributed.protocol.serialize")
_stock_split = _stock.serialize_and_split

Header = dict[str, Any]
_F = TypeVar("_F", bound=Callable[..., Any])
Frame = Any  # bytes, bytearray or memoryview

_core.set_msgpack_types(msgpack.ExtType, msgpack.Timestamp)


def _metered(label: str) -> Callable[[_F], _F]:
    """As ``context_meter.meter(label)``, which takes as long as a small message: not asked where nobody listens."""
    listeners = getattr(context_meter, "_callbacks", None)

    def decorate(function: _F) -> _F:
        metered = context_meter.meter(label)(function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return (
                function(*args, **kwargs) if listeners is not None and not listeners.get() else metered(*args, **kwargs)
            )

        return cast(_F, call)

    return decorate


# ── Documents ────────────────────────────────────────────────────────────────────────────────────────────────


def _pack(document: Any, fallback: Callable[[Any], Any] | None) -> bytes:
    try:
        return _core.pack_document(document, fallback)
    except NotImplementedError:
        return msgpack.dumps(document, default=fallback, use_bin_type=True)


def _unpack(document: Frame, hook: Callable[[Any], Any]) -> Any:
    try:
        return _core.unpack_document(document, hook)
    except NotImplementedError:
        return msgpack.loads(document, object_hook=hook, use_list=False, raw=False, strict_map_key=False)


# ── Messages ─────────────────────────────────────────────────────────────────────────────────────────────────


def dumps(
    msg: Any,
    serializers: Sequence[str] | None = None,
    on_error: str = "message",
    context: dict[str, Any] | None = None,
    frame_split_size: int | None = None,
) -> list[Frame]:
    """As `distributed.protocol.dumps`: the frames of a message, the document first."""
    codec = context["compression"] if context and "compression" in context else "auto"
    plain = compressions[codec].name is None if codec in compressions else False
    frames: list[Frame] = [b""]

    ours = _wire.on_our_comm(context)
    bare = plain and ours  # whose readers miss no list of codecs

    def compressed(header: Header, parts: list[Frame]) -> None:
        if bare and not header.get("compression"):
            return
        given = list(header.get("compression") or [None] * len(parts))
        if not plain:
            for i, part in enumerate(parts):
                if given[i] is None:
                    given[i], parts[i] = maybe_compress(part, compression=codec)
        header["compression"] = tuple(given)

    def add(header: Header, parts: list[Frame], fallback: Callable[[Any], Any] | None) -> int:
        header["num-sub-frames"] = len(parts)
        offset = len(frames)
        frames.append(_pack(header, fallback))
        frames.extend(parts)
        return offset

    def of_control(data: Any) -> tuple[Header, list[Frame]]:
        encoded = _wire.encode_control(data) if ours else None
        if encoded is not None:
            return encoded
        parts: list[Frame] = []
        buffers = lambda buffer: parts.append(ensure_memoryview(buffer))
        return {"pickled-obj": _pickle.dumps(data, buffer_callback=buffers)}, parts

    def pickled(data: Any) -> dict[str, int]:
        try:
            header, parts = of_control(data)
        except Exception as error:
            if not isinstance(data, GraphNode):
                raise
            # What came to the scheduler by pickle need not leave it so. Raised here, the error would end the worker's
            # stream, and the next one's (so it does with Dask's own).
            header, parts = of_control(Task(data.key, _fail, f"{_NOT_SENT} {type(error).__name__}: {error}"))
        if ours and context and context[_wire.SHARES]:
            parts = _wire.own_frames(parts)  # the sender keeps what it sends: a scheduler may send it again
        compressed(header, parts)
        return {"__Pickled__": add(header, parts, None)}

    def fallback(obj: Any) -> Any:
        kind = type(obj)
        if kind is _stock.Serialize or isinstance(obj, _stock.Serialize):
            split = _stock_core.serialize_and_split
            if split is _stock_split:
                split = serialize_and_split
            header, parts = split(
                obj, serializers=serializers, on_error=on_error, context=context, size=frame_split_size
            )
            parts = list(parts)
            compressed(header, parts)
            return {"__Serialized__": add(header, parts, _stock.msgpack_encode_default)}
        if isinstance(obj, _stock.Serialized):
            return {"__Serialized__": add(obj.header, obj.frames, _stock.msgpack_encode_default)}
        if isinstance(obj, _stock.ToPickle):
            return pickled(obj.data)
        if isinstance(obj, _stock.Pickled):
            return {"__Pickled__": add(obj.header, obj.frames, None)}
        encoded = _stock.msgpack_encode_default(obj)
        if encoded is not obj or _stock._is_msgpack_serializable(obj):
            return encoded
        log = logger.debug if ours else logger.info
        log(
            "can not serialize '%s.%s'; falling back to pickle. Be aware that this may degrade performance.",
            kind.__module__,
            kind.__qualname__,
        )
        return pickled(obj)

    try:
        frames[0] = _pack(msg, fallback)
    except Exception:
        again = functools.partial(
            dumps, serializers=serializers, on_error=on_error, context=context, frame_split_size=frame_split_size
        )
        without = _without_annotations_that_fail(msg, again)
        if without is not None:
            return again(without)
        logger.critical("Failed to Serialize", exc_info=True)
        raise
    return frames


def _without_annotations_that_fail(message: Any, dump: Callable[[Any], Any]) -> list[Any] | None:
    """Return a scheduler's messages with a failing task for each whose annotations cannot be sent; None without any."""
    parts = list(message) if isinstance(message, (list, tuple)) else [message]
    found = False
    for i, part in enumerate(parts):
        if isinstance(part, dict) and part.get("op") == "compute-task" and part.get("annotations"):
            try:
                dump(part["annotations"])
            except Exception as error:  # noqa: BLE001
                task = Task(part["key"], _fail, f"{_NOT_SENT} {type(error).__name__}: {error}")
                parts[i] = {**part, "annotations": {}, "run_spec": _stock.ToPickle(task)}
                found = True
    return parts if found else None


_NOT_SENT = "the task cannot be sent on to a worker:"


def loads(frames: Sequence[Frame], deserialize: bool = True, deserializers: Sequence[str] | None = None) -> Any:
    """As `distributed.protocol.loads`: the message of its frames.

    Raises
    ------
    Malformed
        For frames that are no message: the text says where.
    """

    def parts_of(header: Any, offset: int) -> list[Frame]:
        if type(header) is not dict or type(header.get("num-sub-frames")) is not int:
            raise Malformed(f"frame {offset}: a sub-header without num-sub-frames")
        end = offset + 1 + header["num-sub-frames"]
        if not offset < end <= len(frames):
            raise Malformed(
                f"frame {offset}: {header['num-sub-frames']} frames behind it, there are {len(frames) - offset - 1}"
            )
        return list(frames[offset + 1 : end])

    unopened: list[_Unopened] = []

    def hook(obj: Header) -> Any:
        offset = obj.get("__Serialized__", 0)
        if type(offset) is int and offset > 0:
            if offset >= len(frames):
                raise Malformed(f"__Serialized__: frame {offset} of {len(frames)}")
            header = _unpack(frames[offset], _stock.msgpack_decode_default)
            parts = parts_of(header, offset)
            if not deserialize:
                return _stock.Serialized(header, parts)
            if any(header.get("compression") or ()):
                parts = _decompressed(header, parts)
            return merge_and_deserialize(header, parts, deserializers=deserializers)
        offset = obj.get("__Pickled__", 0)
        if type(offset) is int and offset > 0:
            if offset >= len(frames):
                raise Malformed(f"__Pickled__: frame {offset} of {len(frames)}")
            header = _unpack(frames[offset], _stock.msgpack_decode_default)
            parts = parts_of(header, offset)
            if any(header.get("compression") or ()):
                parts = _decompressed(header, parts)
            try:
                if "pickled-obj" in header:
                    return _pickle.loads(header["pickled-obj"], buffers=parts)
                return _wire.decode_control(header, parts)
            except Exception as error:  # noqa: BLE001  whatever a class raises as it is rebuilt
                unopened.append(_Unopened(error))
                return unopened[-1]
        return _stock.msgpack_decode_default(obj)

    try:
        if not frames:
            raise Malformed("a message of no frames")
        message = _unpack(frames[0], hook)
        return message if not unopened else _with_failing_tasks(message, unopened)
    except Exception:
        logger.critical("Failed to deserialize", exc_info=True)
        raise


class _Unopened:
    """Stands where a part of a message could not be rebuilt."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def _with_failing_tasks(message: Any, unopened: Sequence[_Unopened]) -> Any:
    """Return a message in which tasks and graphs that could not be rebuilt fail in the place where they are used.

    Raised here, the error would end the stream, and with it the worker that should run the task, or all futures of the
    client that sent the graph (so it does with Dask's own). What is no part of either is raised.
    """
    left = list(unopened)
    whole = isinstance(message, dict)
    parts = [message] if whole else list(message) if isinstance(message, (list, tuple)) else []
    for i, part in enumerate(parts):
        op = part.get("op") if isinstance(part, dict) else None
        fields = _REBUILT.get(op) if isinstance(op, str) else None
        found = [one for name in fields or () for one in _unopened_in(part.get(name))]
        if not found:
            continue
        reason = f"cannot be rebuilt here: {type(found[0].error).__name__}: {found[0].error}"
        parts[i] = {name: value if not _unopened_in(value) else {} for name, value in part.items()}
        if op == "compute-task":
            parts[i]["run_spec"] = Task(part["key"], _fail, f"the task {reason}")
        else:
            text = f"what came with the graph {reason}"
            parts[i]["expr_ser"] = _stock.Serialized({"serializer": "error"}, [text.encode()])
        left = [one for one in left if one not in found]
    if left:
        raise left[0].error
    return parts[0] if whole else type(message)(parts)


_REBUILT = {"compute-task": ("run_spec", "annotations"), "update-graph": ("annotations", "span_metadata")}


def _unopened_in(value: Any) -> list[_Unopened]:
    if isinstance(value, _Unopened):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return []
    return [one for inner in value for one in _unopened_in(inner)]


def _fail(text: str) -> NoReturn:
    raise Failed(text)


def _decompressed(header: Header, parts: Sequence[Frame]) -> list[Frame]:
    for i, codec in enumerate(header["compression"]):
        if codec not in compressions:
            raise Malformed(
                f"sub-frame {i} is compressed with {codec}, a codec that is missing here; known are {', '.join(map(str, filter(None, compressions)))}"
            )
    return decompress(header, parts)


# ── Values ───────────────────────────────────────────────────────────────────────────────────────────────────

_class_headers: weakref.WeakKeyDictionary[type, tuple[str, bytes]] = weakref.WeakKeyDictionary()


def _dask_dumps(x: Any, context: dict[str, Any] | None) -> tuple[Header, list[Frame]]:
    """Family "dask": what is registered for the class; the class's name and pickle are made once."""
    cls = type(x)
    try:
        function = _stock.dask_serialize.dispatch(cls)
    except TypeError:
        raise NotImplementedError(typename(cls)) from None
    sub_header, frames = function(x, context=context) if has_keyword(function, "context") else function(x)
    known = _class_headers.get(cls)
    if known is None:
        known = _class_headers[cls] = typename(cls), _pickle.dumps(cls)
    return {"sub-header": sub_header, "type": known[0], "type-serialized": known[1], "serializer": "dask"}, frames


def serialize(
    x: Any,
    serializers: Sequence[str] | None = None,
    on_error: str = "message",
    context: dict[str, Any] | None = None,
    iterate_collection: bool | None = None,
) -> tuple[Header, list[Frame]]:
    """As `distributed.protocol.serialize`."""
    if serializers is None:
        serializers = ("dask", "pickle")
    if isinstance(x, _stock.Serialized):
        return x.header, x.frames
    if isinstance(x, _stock.Serialize):
        return serialize(x.data, serializers, on_error, context, iterate_collection=True)
    kind = type(x)
    if kind in (list, set, tuple, dict):
        if iterate_collection is None:
            if kind is list and "msgpack" in serializers:
                # msgpack makes tuples of lists.
                iterate_collection = "pickle" not in serializers or list(serializers).index("pickle") > list(
                    serializers
                ).index("msgpack")
            if not iterate_collection:
                iterate_collection = _stock.check_dask_serializable(x)
        if iterate_collection and (kind is not dict or _keys_fit(x)):
            return _serialize_collection(x, serializers, on_error, context)
    return _serialize_one(x, serializers, on_error, context)


def _keys_fit(x: dict[Any, Any]) -> bool:
    try:
        _pack(list(x), None)
    except Exception:  # noqa: BLE001  whatever a key's conversion raises: then it does not fit
        return False
    return True


def _serialize_collection(
    x: Any, serializers: Sequence[str], on_error: str, context: dict[str, Any] | None
) -> tuple[Header, list[Frame]]:
    headers: list[Header] = []
    lengths: list[int] = []
    codecs: list[Any] = []
    frames: list[Frame] = []
    for item in x.items() if type(x) is dict else x:
        header, parts = serialize(item[1] if type(x) is dict else item, serializers, on_error, context)
        if type(x) is dict:
            header = {**header, "key": item[0]}
        headers.append(header)
        lengths.append(len(parts))
        codecs += header.get("compression") or [None] * len(parts)
        frames += parts
    whole: Header = {
        "sub-headers": headers,
        "is-collection": True,
        "frame-lengths": lengths,
        "type-serialized": type(x).__name__,
    }
    if any(codec is not None for codec in codecs):
        whole["compression"] = codecs
    return whole, frames


def _serialize_one(
    x: Any, serializers: Sequence[str], on_error: str, context: dict[str, Any] | None
) -> tuple[Header, list[Frame]]:
    trace = ""
    failure: Exception | None = None
    for name in serializers:
        function, _, wants_context = _stock.families[name]
        try:
            if function is _stock.dask_dumps:
                return _dask_dumps(x, context)
            header, frames = function(x, context=context) if wants_context else function(x)
            header["serializer"] = name
            return header, frames
        except NotImplementedError:
            continue
        except Exception as error:  # noqa: BLE001  it becomes the message, or the cause
            failure = error
            trace = traceback.format_exc()
            break
    cls = type(x.data) if isinstance(x, (_stock.ToPickle, _stock.Serialize)) else type(x)
    text = f"Could not serialize object of type {cls.__name__}"
    if on_error == "message":
        return {"serializer": "error"}, [part.encode() for part in ([text, trace[:100000]] if trace else [text])]
    if on_error != "raise":
        raise ValueError(f"{on_error=}; expected 'message' or 'raise'")
    try:
        shown = str(x)[:10000]
    except Exception:  # noqa: BLE001  an object that cannot even be shown
        raise TypeError(text) from failure
    raise TypeError(text, shown) from failure


_COLLECTIONS: dict[str, type] = {"tuple": tuple, "list": list, "set": set, "dict": dict}


def deserialize(header: Header, frames: Sequence[Frame], deserializers: Sequence[str] | None = None) -> Any:
    """As `distributed.protocol.deserialize`; the header is left as it was.

    Raises
    ------
    Untrusted
        For a stock header whose class cannot be taken by its name (see `class_of`).
    """
    if "is-collection" in header:
        cls = _COLLECTIONS.get(header["type-serialized"])
        if cls is None:
            raise Malformed(f"a collection of type {header['type-serialized']!r}")
        items: list[Any] = []
        start = 0
        for sub_header, length in zip(header["sub-headers"], header["frame-lengths"], strict=False):
            item = deserialize(sub_header, frames[start : start + length], deserializers)
            items.append((sub_header["key"], item) if cls is dict else item)
            start += length
        return cls(items)
    name = header.get("serializer")
    if deserializers is not None and name not in deserializers:
        raise TypeError(f"Data serialized with {name} but only able to deserialize data with {list(deserializers)!s}")
    if name not in _stock.families:
        raise Malformed(
            f"a header of family {name!r}, which is not known here; known are {', '.join(map(str, _stock.families))}"
        )
    _, function, _ = _stock.families[name]
    if function is _stock.dask_loads:
        cls = class_of(
            header["type-serialized"], pickle=not is_strict() and (deserializers is None or "pickle" in deserializers)
        )
        return _stock.dask_deserialize.dispatch(cls)(header["sub-header"], frames)
    return function(header, frames)


# ── Classes in stock headers ─────────────────────────────────────────────────────────────────────────────────

_classes: weakref.WeakValueDictionary[bytes, type] = weakref.WeakValueDictionary()


def class_of(pickled: bytes, *, pickle: bool = True) -> type:
    """Return the class that a stock header names in its `type-serialized`.

    The pickle of a class is a module, a name, and the opcodes around them. These are parsed here; the pickle is never run, so
    a class that was pickled by value (of ``__main__``, or made in a function) is refused. A module that is not loaded is imported when its package
    registered itself lazily with Dask, when the class is on the trust list, or when the receiver allows family `pickle` anyway.

    Raises
    ------
    Untrusted
        When the bytes hold more than a name, or a name that may not be imported.
    """
    known = _classes.get(pickled)
    if known is not None:
        return known
    module, path = _named(bytes(pickled))
    top = module.partition(".")[0]
    if module not in sys.modules:
        if not (pickle or f"{module}:{path}" in _tables.trusted or top in _stock.dask_deserialize._lazy):
            raise Untrusted(
                f"type-serialized: {module}:{path} is not loaded here, and is neither trusted nor of a package that Dask knows; transload.trust({module + ':' + path!r}) puts it on the list"
            )
        importlib.import_module(module)
    found: Any = sys.modules[module]
    for part in path.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type):
        raise Untrusted(f"type-serialized: {module}:{path} is no class here")
    _classes[bytes(pickled)] = found
    return found


def _named(pickled: bytes) -> tuple[str, str]:
    """The module and name in the pickle of a class."""
    texts: list[str] = []
    at = 0
    try:
        while at < len(pickled):
            code = pickled[at]
            if code == 0x80:  # PROTO
                at += 2
            elif code == 0x95:  # FRAME
                at += 9
            elif code in (0x94, 0x71, 0x72):  # MEMOIZE, BINPUT, LONG_BINPUT
                at += {0x94: 1, 0x71: 2, 0x72: 5}[code]
            elif code == 0x70:  # PUT, of protocol 0
                at = pickled.index(b"\n", at) + 1
            elif code in (0x8C, 0x58):  # SHORT_BINUNICODE, BINUNICODE
                width = 1 if code == 0x8C else 4
                start = at + 1 + width
                end = start + int.from_bytes(pickled[at + 1 : start], "little")
                if end > len(pickled):
                    break
                texts.append(pickled[start:end].decode())
                at = end
            elif code == 0x63:  # GLOBAL
                module, name, _ = pickled[at + 1 :].split(b"\n", 2)
                texts += [module.decode(), name.decode()]
                at += 3 + len(module) + len(name)
            elif code == 0x93 and len(texts) == 2:  # STACK_GLOBAL
                at += 1
            elif code == 0x2E and at == len(pickled) - 1 and len(texts) == 2:  # STOP
                return texts[0], texts[1]
            else:
                break
    except ValueError:
        pass
    raise Untrusted(
        f"type-serialized: byte {at} of a class's pickle is more than its name; a class by value is never run"
    )


# ── Splitting and merging ────────────────────────────────────────────────────────────────────────────────────


@_metered("serialize")
def serialize_and_split(
    x: Any,
    serializers: Sequence[str] | None = None,
    on_error: str = "message",
    context: dict[str, Any] | None = None,
    size: int | None = None,
) -> tuple[Header, list[Frame]]:
    """As `distributed.protocol.serialize_and_split`."""
    header, frames = serialize(x, serializers, on_error, context)
    counts: list[int] = []
    offsets: list[int] = []
    pieces: list[Frame] = []
    codecs: list[Any] = []
    for frame, codec in zip(frames, header.get("compression") or [None] * len(frames), strict=True):
        parts = frame_split_size(frame, n=size) if codec is None else [frame]
        counts.append(len(parts))
        offsets.append(len(pieces))
        pieces += parts
        codecs += [codec] * len(parts)
    header = {
        **header,
        "split-num-sub-frames": tuple(counts),
        "split-offsets": tuple(offsets),
        "compression": tuple(codecs),
    }
    return header, pieces


@_metered("deserialize")
def merge_and_deserialize(header: Header, frames: Sequence[Frame], deserializers: Sequence[str] | None = None) -> Any:
    """As `distributed.protocol.merge_and_deserialize`."""
    if "split-num-sub-frames" in header:
        frames = [
            _merged(frames[offset : offset + n])
            for n, offset in zip(header["split-num-sub-frames"], header["split-offsets"], strict=False)
        ]
    return deserialize(header, frames, deserializers)


def _merged(pieces: Sequence[Frame]) -> Frame:
    if len(pieces) == 1:
        return pieces[0]
    try:
        return merge_memoryviews(pieces)
    except (ValueError, TypeError):
        return host_array_from_buffers(pieces)


# ── Spilling ─────────────────────────────────────────────────────────────────────────────────────────────────


def serialize_bytelist(x: Any, compression: str | bool | None = "auto", **kwargs: Any) -> list[Frame]:
    """As `distributed.protocol.serialize.serialize_bytelist`."""
    split = _stock.serialize_and_split
    header, frames = (serialize_and_split if split is _stock_split else split)(x, **kwargs)
    parts = [maybe_compress(frame, compression=compression) for frame in frames]
    header = {**header, "count": len(parts)}
    if parts:
        header["compression"] = tuple(codec for codec, _ in parts)
    bodies = [_pack(header, None), *(frame for _, frame in parts)]
    return [pack_frames_prelude(bodies), *bodies]


def serialize_bytes(x: Any, **kwargs: Any) -> bytes:
    """As `distributed.protocol.serialize_bytes`."""
    return b"".join(serialize_bytelist(x, **kwargs))


def deserialize_bytes(b: Frame) -> Any:
    """As `distributed.protocol.deserialize_bytes`."""
    head, *frames = unpack_frames(b)
    header = _unpack(head, lambda obj: obj) if head else {}
    if any(header.get("compression") or ()):
        frames = _decompressed(header, frames)
    return merge_and_deserialize(header, frames)
