"""transload as fault cases see it: `dumps(obj) -> (frames, family)`, `loads(frames) -> obj`, and a hook for each special wish.

Paths: ``direct`` is `transload.dumps` and `loads`; ``inproc`` the same with nothing copied between; ``message`` puts header and
frames behind a prelude, as a comm does, or, when Dask is to compress them, into a message of Dask's own protocol, as the plug-in
does; ``spill`` puts them into one run of bytes. Dask is imported where it is needed: a case may time the first message.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import msgpack

import transload

MARKER = f"transload/{transload.FORMAT_VERSION}"
_FAMILIES = {"dask": "host", "pickle": "pickle", "error": "error"}
ALL = ("dask", "pickle", "error")

# The cases' own classes stand for a user's.
transload.trust(*(f"shapes:{name}" for name in ("Bag", "Counted", "Image", "Model", "Point", "Signal")))


class Adapter:
    """Offers transload's verbs under the names that the cases use."""

    unknown_codec = "brotli"

    def __init__(self, path: str = "direct", compression: str | None = None, families: tuple[str, ...] = ALL) -> None:
        self.path = path
        self.compression = compression  # what Dask does to the frames of a message; transload's own are not compressed
        self.families = tuple(_FAMILIES[family] for family in families)

    # ── There and back ───────────────────────────────────────────────────────────────────────────────────────

    def dumps(self, obj: Any) -> tuple[list[Any], str]:
        message = transload.serialize(obj, families=self.families)
        family = "+".join(message.families)
        parts = [message.header, *message.frames]
        if self.path == "message" and self.compression:
            return self.dumps_raw({"data": _embedded(bytes(message.header), message.frames)}), family
        return self._carried(parts), family

    def _carried(self, parts: list[Any]) -> list[Any]:
        if self.path == "message":
            return [msgpack.packb({"data": MARKER}), *parts]
        if self.path == "spill":
            from distributed.protocol.utils import pack_frames

            # Frames lie behind whole numbers of 8 bytes, and the header, which is of any length, at the end.
            return [pack_frames([*parts[1:], parts[0]])]
        return parts

    def loads(self, frames: list[Any]) -> Any:
        if self.path == "message" and self.compression:
            return self._opened(self.loads_raw(frames)["data"])
        if self.path == "message":
            assert msgpack.unpackb(frames[0]) == {"data": MARKER}
            frames = frames[1:]
        if self.path == "spill":
            from distributed.protocol.utils import unpack_frames

            *frames, header = unpack_frames(frames[0])
            frames = [header, *frames]
        return self._decoded(frames)

    def _decoded(self, parts: list[Any]) -> Any:
        return transload.loads(parts, families=tuple(family for family in self.families if family != "error"))

    def _opened(self, embedded: Any) -> Any:
        frames = embedded.frames
        if any(embedded.header.get("compression") or ()):
            from distributed.protocol.compression import decompress

            frames = decompress(embedded.header, frames)
        return self._decoded([embedded.header["header"], *frames])

    def dumps_raw(self, message: Any) -> list[Any]:
        """A message of Dask's protocol."""
        from distributed import protocol

        frames: list[Any] = protocol.dumps(message, context={"compression": self.compression})
        return frames

    def loads_raw(self, frames: list[Any]) -> Any:
        from distributed import protocol

        return protocol.loads(frames, deserialize=False)

    # ── Wishes of single cases ───────────────────────────────────────────────────────────────────────────────

    def register_generic(self, cls: type) -> None:
        """Any object goes by its state; what is needed is trust."""
        transload.trust(cls)

    def register(self, cls: type, dumps: Callable[..., Any], loads: Callable[..., Any]) -> None:
        """An adapter from a pair that speaks of (header, frames)."""
        transload.register(cls, name=f"case.{cls.__name__}", encode=lambda obj: dumps(obj), decode=lambda value: loads(*value))

    def restricted(self, *families: str) -> Adapter:
        """The same receiver, which takes these families only."""
        return Adapter(self.path, self.compression, families)

    def with_unknown_codec(self, obj: Any) -> list[Any]:
        """Frames that say they were compressed with a codec that nobody here has."""
        header, *frames = transload.dumps(obj)
        version, meta, *rest = msgpack.unpackb(header, strict_map_key=False)
        meta["!codec"] = [self.unknown_codec] * len(frames)
        return self._carried([msgpack.packb([version, meta, *rest]), *(bytes(frame)[:100] for frame in frames)])

    def over_comm(self, obj: Any, scheme: str = "tcp", certdir: str = "") -> tuple[Any, int]:
        """One object through a loopback connection of Dask's: (object, bytes written)."""
        import asyncio

        from distributed.comm import connect, listen
        from distributed.security import Security

        listen_args: dict[str, Any] = {}
        connect_args: dict[str, Any] = {}
        if scheme == "tls":
            files = {f"tls_{role}_{kind}": os.path.join(certdir, f"{kind}.pem") for role in ("scheduler", "client") for kind in ("cert", "key")}
            security = Security(tls_ca_file=os.path.join(certdir, "cert.pem"), require_encryption=True, **files)
            listen_args, connect_args = security.get_listen_args("scheduler"), security.get_connection_args("client")
        header, *frames = transload.dumps(obj, families=self.families)
        pieces = [memoryview(frame)[at : at + (1 << 30)] for frame in frames for at in range(0, max(memoryview(frame).nbytes, 1), 1 << 30)]
        lengths = [memoryview(frame).nbytes for frame in frames]

        async def go() -> tuple[Any, int]:
            arrived: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

            async def handle(comm: Any) -> None:
                try:
                    arrived.set_result((await comm.read())["data"])
                except Exception as error:
                    arrived.set_exception(error)

            async with listen(f"{scheme}://127.0.0.1:0", handle, deserialize=False, **listen_args) as listener:
                comm = await connect(listener.contact_address, deserialize=False, **connect_args)
                nbytes = await comm.write({"data": _embedded(bytes(header), pieces)})
                embedded = await asyncio.wait_for(arrived, 200)
                await comm.close()
                return self._decoded([embedded.header["header"], *_joined(embedded.frames, lengths)]), nbytes

        return asyncio.run(go())


def _joined(pieces: list[Any], lengths: list[int]) -> list[Any]:
    """The pieces of frames that TLS could not take whole: adjacent ones are one frame already."""
    todo, frames = list(pieces), []
    for nbytes in lengths:
        if memoryview(todo[0]).nbytes == nbytes:
            frames.append(todo.pop(0))
            continue
        whole = bytearray(nbytes)
        at = 0
        while at < nbytes:
            piece = memoryview(todo.pop(0))
            whole[at : at + piece.nbytes] = piece
            at += piece.nbytes
        frames.append(whole)
    return frames


def _embedded(header: bytes, frames: Any) -> Any:
    from distributed.protocol.serialize import Serialized

    return Serialized({"serializer": MARKER, "header": header}, list(frames))


TRANSLOAD = Adapter
