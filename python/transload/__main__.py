"""``python -m transload explain``: how an object would be written, or what is in a file."""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import sys

from . import _core
from ._explain import explain
from ._files import read
from ._message import FAMILIES


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m transload", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("explain", help="how an object would be written, or what is in a file; builds nothing from a file")
    command.add_argument("what", help="a file that save wrote, or module:attribute of an object; with -c, Python code whose last line is the object")
    command.add_argument("-c", action="store_true", dest="code", help="WHAT is Python code")
    command.add_argument("--families", default=None, help="comma-separated, as in serialize")
    command.add_argument("--compression", default=None, choices=("auto", "lz4", "zstd"), help="as in serialize")
    command.add_argument("--level", default=None, type=int, help="of zstd")
    arguments = parser.parse_args(argv)
    families = tuple(arguments.families.split(",")) if arguments.families else None

    if not arguments.code and os.path.exists(arguments.what):
        print(_describe_file(arguments.what))
        return 0
    try:
        obj = _evaluate(arguments.what) if arguments.code else _named(arguments.what)
    except (ImportError, AttributeError, ValueError, SyntaxError) as error:
        print(f"transload explain: {error}", file=sys.stderr)
        return 2
    found = explain(obj, families or FAMILIES, compression=arguments.compression, level=arguments.level)
    print(found)
    return 1 if found.error else 0


def _describe_file(path: str) -> str:
    message = read(path, check=True)
    known = _core.inspect(message.header)
    lines = [
        f"{path}: {memoryview(message.header).nbytes:,} bytes of header, family {', '.join(known['families'])}",
        f"{len(known['frames'])} frames of {sum(known['frames']):,} bytes in {known['payloads']} payloads; checksums are right",
        *(
            f"  frame {i}: {nbytes:,} bytes" + (f", stored in {memoryview(stored).nbytes:,} by {codec}" if codec else "")
            for i, (nbytes, codec, stored) in enumerate(zip(known["frames"], known["codecs"] or [None] * len(message.frames), message.frames, strict=True))
        ),
        f"names ({len(known['names'])}):",
        *(f"  {name}" for name in known["names"]),
    ]
    return "\n".join(lines)


def _named(name: str) -> object:
    module, colon, path = name.partition(":")
    if not colon:
        raise ValueError(f"{name!r} is neither a file nor module:attribute; -c takes Python code")
    sys.path.insert(0, os.getcwd())
    obj: object = importlib.import_module(module)
    for part in path.split("."):
        obj = getattr(obj, part)
    return obj


def _evaluate(code: str) -> object:
    tree = ast.parse(code, mode="exec")
    if not tree.body or not isinstance(tree.body[-1], ast.Expr):
        raise ValueError("the last line of the code must be an expression")
    last = ast.Expression(tree.body.pop().value)  # type: ignore[attr-defined]
    names: dict[str, object] = {"__name__": "__main__"}
    exec(compile(tree, "<explain>", "exec"), names)
    value: object = eval(compile(last, "<explain>", "eval"), names)
    return value


if __name__ == "__main__":
    sys.exit(main())
