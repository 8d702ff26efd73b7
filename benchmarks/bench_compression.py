"""What compression costs and saves, beside Dask's own compression of the same frames.

    python benchmarks/bench_compression.py [--runs 9] [--json FOLDER]

"write" is encoding and compressing, "read" opening and decoding. Ours compresses and opens frames itself, with zstd at Dask's level; Dask's rival is what Dask does to
transload's frames where they are given to it raw: `maybe_compress` each, and `decompress`.
"""

from __future__ import annotations

from typing import Any

import dask
import payloads
import tables
from distributed.protocol.compression import compressions, decompress, maybe_compress
from rivals import Call, arrived, interleaved, keep, nbytes, parser, result, summary

import transload


def dask_write(obj: object, codec: str | None) -> tuple[tuple[str | None, ...], list[Any]]:
    packed = [maybe_compress(frame, compression=codec) for frame in transload.dumps(obj, ("host",))]
    return tuple(name for name, _ in packed), [frame for _, frame in packed]


def dask_read(there: tuple[tuple[str | None, ...], list[Any]]) -> Any:
    return transload.loads(decompress({"compression": there[0]}, there[1]))


def rows_of(name: str, obj: object, runs: int, clock: str) -> list[dict[str, Any]]:
    """One row a codec, and one without any."""
    level = dask.config.get("distributed.comm.zstd.level")
    calls: dict[Any, Call] = {}
    sizes: dict[Any, int] = {}
    for codec in (None, "auto", "lz4", "zstd"):
        options = {"compression": codec, **({"level": level} if codec == "zstd" else {})}
        ours = transload.dumps(obj, ("host",), **options)
        sizes[codec, "ours"] = nbytes(ours)
        calls[codec, "ours", "write"] = Call(lambda obj, options=options: transload.dumps(obj, ("host",), **options), obj)
        calls[codec, "ours", "read"] = Call(transload.loads, arrived(ours))
        if codec is None or codec not in compressions:
            continue
        names, theirs = dask_write(obj, codec)
        sizes[codec, "Dask"] = nbytes(theirs)
        calls[codec, "Dask", "write"] = Call(lambda obj, codec=codec: dask_write(obj, codec), obj)
        calls[codec, "Dask", "read"] = Call(dask_read, (names, arrived(theirs)))
    seconds = interleaved(calls, runs, clock=clock)
    found = []
    for codec in (None, "auto", "lz4", "zstd"):
        who = {}
        for rival in ("ours", "Dask"):
            if (codec, rival) in sizes:
                write, read = seconds[codec, rival, "write"], seconds[codec, rival, "read"]
                who[rival] = {"bytes": sizes[codec, rival], "write": summary(write), "read": summary(read), "both": summary([w + r for w, r in zip(write, read, strict=False)])}
        found.append({"name": name, "codec": codec, "raw": sizes[None, "ours"], "codecs": sorted({c for c in transload.serialize(obj, ("host",), compression=codec).codecs if c}), "who": who})
    for row in found[1:]:
        more = row["who"]["ours"]["both"]["median"] - found[0]["who"]["ours"]["both"]["median"]
        saved = row["raw"] - row["who"]["ours"]["bytes"]
        # Bytes a second of the link on which the time saved is the time spent.
        row["pays_below"] = saved / more if saved > 0 and more > 0 else None
    return found


def main() -> None:
    chosen = parser(__doc__, 9).parse_args()
    rows = [row for name, make in payloads.COMPRESSED.items() for row in rows_of(name, make(), chosen.runs, chosen.clock)]
    found = result("compression", chosen.runs, chosen.clock, rows=rows)
    print(tables.heading(found))
    print(tables.compression(found))
    keep(chosen.json, found)


if __name__ == "__main__":
    main()
