"""Python's own: builtins and the standard library."""

from __future__ import annotations

MAKE, CALL, HAND_ON = 1, 2, 4

NAMES: dict[str, int] = {
    # Plain data types; handing them on lets `dtype=float` or `defaultdict(list)` travel.
    **{
        f"builtins:{name}": HAND_ON
        for name in (
            "bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list", "object", "range", "set", "slice", "str",
            "tuple",
        )  # not type: called with three arguments it makes classes
    },
    **{
        f"builtins:{name}": HAND_ON
        for name in ("abs", "all", "any", "hash", "id", "len", "max", "min", "round", "sorted", "sum", "Ellipsis", "NotImplemented")
    },
    "builtins:object": MAKE | HAND_ON,
    "builtins:complex": CALL | HAND_ON,
    "types:NoneType": HAND_ON,
    "types:EllipsisType": HAND_ON,
    "types:NotImplementedType": HAND_ON,
    "types:SimpleNamespace": CALL | HAND_ON,
    "types:GenericAlias": CALL,
    "datetime:date": CALL | HAND_ON,
    "datetime:datetime": CALL | HAND_ON,
    "datetime:time": CALL | HAND_ON,
    "datetime:timedelta": CALL | HAND_ON,
    "datetime:timezone": CALL | HAND_ON,
    "zoneinfo:ZoneInfo._unpickle": CALL,
    "decimal:Decimal": CALL | HAND_ON,
    "fractions:Fraction": CALL | HAND_ON,
    "uuid:UUID": MAKE | HAND_ON,
    "uuid:SafeUUID": CALL | HAND_ON,
    "pathlib:Path": CALL | HAND_ON,
    "pathlib:PosixPath": CALL | HAND_ON,
    "pathlib:WindowsPath": CALL | HAND_ON,
    "pathlib:PurePath": CALL | HAND_ON,
    "pathlib:PurePosixPath": CALL | HAND_ON,
    "pathlib:PureWindowsPath": CALL | HAND_ON,
    "pathlib._local:PosixPath": CALL | HAND_ON,
    "pathlib._local:PurePosixPath": CALL | HAND_ON,
    "pathlib._local:PureWindowsPath": CALL | HAND_ON,
    "collections:OrderedDict": CALL | HAND_ON,
    "collections:defaultdict": CALL | HAND_ON,
    "collections:deque": CALL | HAND_ON,
    "collections:Counter": CALL | HAND_ON,
    "collections:ChainMap": MAKE | HAND_ON,  # not to be called: with an array as its map, it writes to that array
    "collections:UserDict": MAKE | HAND_ON,
    "collections:UserList": MAKE | HAND_ON,
    "collections:UserString": MAKE | HAND_ON,
    # Binds arguments to a callable of the same message; each of those may be handed on because it is harmless whatever its arguments.
    "functools:partial": CALL | HAND_ON,
    "array:_array_reconstructor": CALL,  # stands for adapters.standard.array_reconstructor
    "array:array": HAND_ON,
    "copyreg:_reconstructor": CALL,  # stands for adapters.standard.reconstructor
    "re:_compile": CALL,  # stands for adapters.standard.compile_pattern
    "re:RegexFlag": CALL | HAND_ON,
    "http:HTTPStatus": CALL | HAND_ON,
    # Addresses: their constructors parse text and numbers.
    **{f"ipaddress:IPv{version}{kind}": CALL | HAND_ON for version in (4, 6) for kind in ("Address", "Network", "Interface")},
    "time:struct_time": CALL,
    "random:Random": CALL,  # not SystemRandom
    "_io:BytesIO": MAKE,  # memory, no file
    "_io:StringIO": MAKE,
    # Picks items; attrgetter and methodcaller reach everything, and stay out with getattr.
    "operator:itemgetter": CALL,
    **{
        f"_operator:{name}": HAND_ON
        for name in (
            "abs", "add", "and_", "contains", "eq", "floordiv", "ge", "gt", "index", "invert", "le", "lt", "mod", "mul", "ne", "neg", "not_", "or_", "pos", "sub", "truediv", "truth", "xor",
        )
    },
    # Exceptions, as results hold them: making one raises nothing.
    **{
        f"builtins:{name}": CALL | HAND_ON
        for name in (
            "ArithmeticError", "AssertionError", "AttributeError", "BaseException", "BaseExceptionGroup", "BlockingIOError", "BrokenPipeError", "BufferError", "BytesWarning", "ChildProcessError",
            "ConnectionAbortedError", "ConnectionError", "ConnectionRefusedError", "ConnectionResetError", "DeprecationWarning", "EOFError", "EncodingWarning", "Exception", "ExceptionGroup",
            "FileExistsError", "FileNotFoundError", "FloatingPointError", "FutureWarning", "GeneratorExit", "ImportError", "ImportWarning", "IndentationError", "IndexError", "InterruptedError",
            "IsADirectoryError", "KeyError", "KeyboardInterrupt", "LookupError", "MemoryError", "ModuleNotFoundError", "NameError", "NotADirectoryError", "NotImplementedError", "OSError",
            "OverflowError", "PendingDeprecationWarning", "PermissionError", "ProcessLookupError", "RecursionError", "ReferenceError", "ResourceWarning", "RuntimeError", "RuntimeWarning",
            "StopAsyncIteration", "StopIteration", "SyntaxError", "SyntaxWarning", "SystemError", "SystemExit", "TabError", "TimeoutError", "TypeError", "UnboundLocalError",
            "UnicodeDecodeError", "UnicodeEncodeError", "UnicodeError", "UnicodeTranslateError", "UnicodeWarning", "UserWarning", "ValueError", "Warning", "ZeroDivisionError",
        )
    },
}
