"""Trust: what bytes may name, what they may do with it, and what happens where pickle is forbidden."""

from __future__ import annotations

import collections
import importlib
import os
import subprocess
import sys
import textwrap
import threading
from typing import Any

import msgpack
import numpy as np
import pytest

import transload
from transload import _tables


def message(root: Any, names: list[Any] = (), shapes: list[Any] = (), sizes: list[Any] = ()) -> bytes:  # type: ignore[assignment]
    """A header by hand: docs/format.md, "The header"."""
    return msgpack.packb([1, {}, list(names), list(shapes), [65536, 1 << 62] if sizes else None, list(sizes), root])


REF, VALUE, LIST, TUPLE, OBJECT, NAME, REDUCE, NEW, NEW_KW, ADAPTED, PICKLE = 0, 1, 2, 3, 7, 8, 9, 10, 11, 12, 27

DANGEROUS = [
    "os:system", "posix:system", "subprocess:Popen", "builtins:eval", "builtins:exec", "builtins:open", "builtins:getattr", "builtins:__import__", "builtins:compile", "builtins:type", "builtins:breakpoint",
    "importlib:import_module", "pickle:loads", "_pickle:loads", "runpy:run_path", "ctypes:CDLL", "operator:attrgetter", "operator:methodcaller", "shutil:rmtree", "io:open", "pathlib:Path.unlink",
    "numpy:load", "numpy:fromfile", "numpy:memmap", "numpy:ndarray", "numpy:frompyfunc", "numpy:vectorize", "numpy.lib._npyio_impl:load", "numpy.testing:rundocs", "numpy.f2py:compile", "numpy._core.multiarray:scalar",
    "pandas:read_pickle", "pandas:eval", "pandas:DataFrame.query", "pandas:read_csv", "pandas.io.pickle:read_pickle", "pandas._libs.internals:_unpickle_block", "pandas.core.indexes.base:_new_Index",
    "scipy.io:loadmat", "scipy._lib._util:getargspec_no_self", "scipy.sparse:load_npz", "sklearn.datasets:fetch_openml", "sklearn.tree._tree:Tree", "sklearn.neighbors._kd_tree:newObj", "sklearn.utils:_import_module",
    "sklearn.externals._arff:load", "joblib:load", "joblib.memory:Memory", "cloudpickle:loads", "cloudpickle.cloudpickle:_make_function", "types:FunctionType", "types:CodeType", "sys:modules", "transload:trust", "transload:register",
    "transload._pickle:from_value", "functools:reduce", "zoneinfo:ZoneInfo.from_file", "logging.config:listen", "code:InteractiveInterpreter", "timeit:timeit", "pty:spawn", "webbrowser:open", "multiprocessing.connection:Client",
]


@pytest.mark.parametrize("name", DANGEROUS)
@pytest.mark.parametrize("use", [lambda: [REDUCE, 0, []], lambda: [NAME, 0], lambda: [NEW, 0, []], lambda: [NEW_KW, 0, [], {}], lambda: [LIST, 1, [REDUCE, 0, ["x"], {}]]])
def test_name_off_the_list_is_refused_before_anything_is_built(name: str, use: Any) -> None:
    modules = set(sys.modules)
    with pytest.raises(transload.Untrusted, match=name.replace(".", r"\.")):
        transload.loads([message(use(), [name])])
    assert {m for m in set(sys.modules) - modules if m.startswith(name.partition(":")[0])} == set()


@pytest.mark.parametrize("name", ["builtins:list.__class__", "collections:OrderedDict.__init__.__globals__", "collections:sys", "collections:_sys.modules", "datetime:datetime.strptime", "uuid:UUID.__class__", "uuid:os", "decimal:Decimal.__subclasses__"])
def test_attributes_of_what_is_trusted_are_not(name: str) -> None:
    with pytest.raises(transload.Untrusted):
        transload.loads([message([NAME, 0], [name])])


@pytest.mark.parametrize("name", [":", "os:", ":system", "os:a:b", "a:<locals>.b", "os :system", " builtins:len", "builtins:len ", "BUILTINS:len", "builtins:len\0", "builtins:Len"])
def test_spellings_that_are_near_are_not_it(name: str) -> None:
    with pytest.raises(transload.Malformed):
        transload.loads([message([NAME, 0], [name])])


def test_unused_name_off_the_list_is_refused_too() -> None:
    with pytest.raises(transload.Untrusted, match="os:system"):
        transload.loads([message(5, ["os:system"])])


def test_error_says_name_place_and_remedy() -> None:
    with pytest.raises(transload.Untrusted) as caught:
        transload.loads([message([LIST, 1, {"k": [REDUCE, 0, []]}], ["some_module:Thing"])])
    text = str(caught.value)
    assert "some_module:Thing" in text and "obj[1]['k']" in text and 'transload.trust("some_module:Thing")' in text
    with pytest.raises(transload.Unsupported, match=r"obj\['k'\].*trust\("):
        transload.dumps({"k": Unknown()}, families=("host",))


class Unknown:
    pass


class Late:
    pass


def test_trust_lets_it_through_on_both_sides() -> None:
    with pytest.raises(transload.Unsupported):
        transload.dumps(Late(), families=("host",))
    assert transload.trust(Late) is Late
    assert type(transload.loads(transload.dumps(Late(), families=("host",)))) is Late
    assert f"{__name__}:Late" in transload.trusted_names()


@pytest.mark.parametrize(("name", "use"), [("builtins:len", [REDUCE, 0, [[LIST]]]), ("builtins:range", [REDUCE, 0, []]), ("builtins:int", [NEW, 0, []]), ("datetime:date", [NEW, 0, []]), ("collections:deque", [NEW, 0, []]), ("numpy:dtype", [REDUCE, 0, ["O"]])])
def test_role_is_part_of_trust(name: str, use: Any) -> None:
    with pytest.raises(transload.Untrusted, match="not trusted to"):
        transload.loads([message(use, [name])])


# ── Pickles ──────────────────────────────────────────────────────────────────────────────────────────────────

BOMB = b"cos\nsystem\n(S'exit 3'\ntR."


@pytest.mark.parametrize("root", [[PICKLE, BOMB], [LIST, [PICKLE, BOMB]], {"k": [PICKLE, BOMB]}, [REDUCE, 0, [[PICKLE, BOMB]]], [NEW, 0, [], [PICKLE, BOMB]]])
def test_pickle_is_refused_wherever_it_sits(root: Any) -> None:
    with pytest.raises(transload.Untrusted, match="pickle"):
        transload.loads([message(root, ["collections:OrderedDict"])])


def test_name_by_value_is_refused() -> None:
    with pytest.raises(transload.Untrusted, match="by value"):
        transload.loads([message([NAME, 0], [BOMB])])


@pytest.mark.parametrize("thing", [lambda: 1, {"f": lambda: 1}, [np.array([lambda: 1], object)], {lambda: 1}, collections.UserList([lambda: 1])])
def test_lambda_goes_to_pickle_where_allowed_and_is_refused_where_not(thing: Any) -> None:
    sent = transload.serialize(thing)
    assert sent.families == ("host", "pickle")
    with pytest.raises(transload.Untrusted):
        transload.deserialize(sent)
    assert transload.deserialize(sent, families=("host", "pickle")) is not None
    with pytest.raises(transload.Unsupported):
        transload.serialize(thing, families=("host",))


def test_what_cloudpickle_was_told_to_send_by_value_goes_by_value(tmp_path: Any) -> None:
    """`cloudpickle.register_pickle_by_value`: the module is missing at the receiver, and its submodules too."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text("")
    (tmp_path / "mine" / "inner.py").write_text("class Thing:\n    x = 1\n\n\ndef double(x):\n    return 2 * x\n")
    send = """
        import sys, cloudpickle, transload
        sys.path.insert(0, sys.argv[1])
        import mine.inner
        cloudpickle.register_pickle_by_value(mine)
        transload.save(sys.argv[1] + "/f.tld", [mine.inner.Thing(), mine.inner.double], families=("host", "pickle"))
    """
    take = """
        import sys, transload
        thing, double = transload.load(sys.argv[1] + "/f.tld", families=("host", "pickle"))
        assert type(thing).__name__ == "Thing" and thing.x == 1 and double(3) == 6
        assert "mine" not in sys.modules
    """
    for script in (send, take):
        run = subprocess.run([sys.executable, "-c", textwrap.dedent(script), str(tmp_path)], capture_output=True, text=True)
        assert run.returncode == 0, run.stderr


def test_family_names_allows_names_and_no_pickle() -> None:
    """What messages of Dask's own are written and read with, also in a strict process."""
    names = ("host", "names")
    transload.strict()
    try:
        header, frames, families = transload._core.encode([os.path.join, {1}], names)
        assert families == ("host", "pickle")
        assert transload._core.decode(header, frames, names, None) == [os.path.join, {1}]
        for thing in (lambda: 1, threading.Lock()):
            with pytest.raises(transload.Unsupported, match="pickle"):
                transload._core.encode([thing], names)
    finally:
        transload.strict(False)
    for root, listed in (([NAME, 0], [b"\x80\x05N."]), ([PICKLE, b"\x80\x05N."], [])):
        with pytest.raises(transload.Untrusted, match="pickle"):
            transload._core.decode(message(root, listed), [], names, None)


def test_error_family_raises_at_the_receiver() -> None:
    sent = transload.serialize([lambda: 1], families=("host", "error"))
    assert sent.families == ("error",)
    with pytest.raises(transload.Failed, match=r"obj\[0\]"):
        transload.deserialize(sent)


def test_strict_process_neither_writes_nor_reads_a_pickle() -> None:
    pickled = transload.dumps(lambda: 1)
    transload.strict()
    try:
        assert transload.is_strict()
        with pytest.raises(transload.Unsupported):
            transload.dumps(lambda: 1, families=("host", "pickle"))
        with pytest.raises(transload.Untrusted):
            transload.loads(pickled, families=("host", "pickle"))
        assert transload.loads(transload.dumps([1, {2}])) == [1, {2}]
    finally:
        transload.strict(False)


def test_strict_holds_in_a_call_that_began_before() -> None:
    """The switch is looked at where a pickle is made or run, whatever the call was allowed when it began, and on every thread."""

    class Turns:
        def __reduce__(self) -> Any:
            transload.strict()
            return (list, ())

    try:
        with pytest.raises(transload.Unsupported, match="strict"):
            transload.dumps([Turns(), lambda: 1], families=("host", "pickle"))
        transload.strict(False)
        pickled = transload.dumps(lambda: 1)
        said: list[BaseException] = []

        def read() -> None:
            try:
                transload.loads(pickled, families=("host", "pickle"))
            except transload.Untrusted as error:
                said.append(error)

        transload.strict()
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
        assert len(said) == 1
        from transload import _core, _pickle

        with pytest.raises(transload.Untrusted, match="not allowed"):
            _core.decode(pickled[0], pickled[1:], ("host", "pickle"))
        with pytest.raises(transload.Untrusted, match="strict"):
            _pickle.from_value(BOMB, [])
        with pytest.raises(transload.Unsupported, match="strict"):
            _pickle.by_value(len, False)
    finally:
        transload.strict(False)


def test_strict_process_neither_saves_nor_loads_a_pickle(tmp_path: Any) -> None:
    path = tmp_path / "x"
    transload.save(path, [lambda: 1], families=("host", "pickle"))
    transload.strict()
    try:
        with pytest.raises(transload.Untrusted):
            transload.load(path, families=("host", "pickle"))
        with pytest.raises(transload.Unsupported):
            transload.save(tmp_path / "y", [lambda: 1], families=("host", "pickle", "error"))
        assert not (tmp_path / "y").exists()
        assert "lambda" in transload.explain([lambda: 1]).error
    finally:
        transload.strict(False)


def test_strict_process_sends_no_value_in_dasks_own_form() -> None:
    """A peer that does not know transload takes Dask's families, which hold a pickle: of the value, or of its class."""
    pytest.importorskip("distributed")
    from distributed.protocol.serialize import Serialize, serialize_and_split

    from transload.dask import _wire

    def sent(value: Any) -> tuple[Any, Any]:
        return _wire.encode(serialize_and_split, Serialize(value), None, "message", None, None, speaking=True)

    assert sent(1 + 2j)[0]["serializer"] == "pickle"
    transload.strict()
    try:
        header, frames = sent(1 + 2j)
        assert header["serializer"] == "error" and b"strict() is on" in bytes(frames[0])
    finally:
        transload.strict(False)


def test_family_must_be_known() -> None:
    with pytest.raises(ValueError, match="dask"):
        transload.dumps(1, families=("dask",))


# ── What may be called with hostile arguments ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("datetime:datetime", [b"\xff" * 10]), ("datetime:date", ["x"]), ("datetime:timezone", [5]), ("zoneinfo:ZoneInfo._unpickle", ["../../etc/passwd", True]), ("zoneinfo:ZoneInfo._unpickle", ["/etc/passwd", True]),
        ("decimal:Decimal", ["not a number"]), ("fractions:Fraction", ["1/0"]), ("uuid:UUID", ["x"]), ("collections:deque", [5]), ("collections:defaultdict", [5]), ("array:_array_reconstructor", [1, 2, 3, 4]),
        ("functools:partial", [5]), ("ipaddress:IPv4Address", ["x"]), ("re:_compile", ["(", 0]), ("re:_compile", ["(" * 5000 + ")" * 5000, 0]), ("copyreg:_reconstructor", [1, 2, 3]), ("builtins:UnicodeDecodeError", [1]),
        ("numpy._core.multiarray:_reconstruct", [1, 2, 3]), ("pandas._libs.tslibs.timestamps:_unpickle_timestamp", [1, None, None, 99]), ("pandas:Period", ["x" * 100]), ("pandas._libs.tslibs.offsets:Week", [1, False, 99]),
        ("pandas:StringDtype", ["x"]), ("pandas:PeriodDtype", ["x"]), ("random:Random", [{}]),
    ],
)
def test_arguments_that_a_reconstructor_refuses_are_malformed(name: str, arguments: Any) -> None:
    if name.partition(".")[0].partition(":")[0] in ("pandas", "sklearn"):
        pytest.importorskip(name.partition(".")[0].partition(":")[0])
    root = [REDUCE, 0, [[TUPLE, *a] if isinstance(a, tuple) else a for a in arguments]]
    with pytest.raises(transload.Error):
        transload.loads([message(root, [name])])


def test_generators_are_not_made_by_a_callable_of_the_senders() -> None:
    for name in ("numpy.random._pickle:__generator_ctor", "numpy.random._pickle:__randomstate_ctor", "numpy.random._pickle:__bit_generator_ctor"):
        with pytest.raises(transload.Untrusted):
            transload.loads([message([REDUCE, 0, ["MT19937"]], [name])])


@pytest.mark.parametrize("name", [name for name, roles in _tables.trusted.items() if roles & _tables.CALL])
def test_every_name_that_may_be_called_survives_odd_arguments(name: str) -> None:
    library = name.partition(":")[0].partition(".")[0]
    if library in ("pandas", "sklearn", "scipy", "dateutil", "pytz", "numpy", "pyarrow"):
        pytest.importorskip(library)
    for arguments in ([], [None], [-1], ["x"], [[13, b"\0" * 9 + b"\x40"]], [b"\xff" * 16], [[LIST]], [1, 2, 3], [{}], [None, None, None, None, None]):
        try:
            transload.loads([message([REDUCE, 0, arguments], [name])])
        except (transload.Error, MemoryError):
            pass
        except Warning:
            pass


@pytest.mark.parametrize("name", [name for name, roles in _tables.trusted.items() if roles & _tables.MAKE])
def test_every_name_that_may_be_made_survives_odd_state(name: str) -> None:
    library = name.partition(":")[0].partition(".")[0]
    if library in ("pandas", "sklearn", "scipy", "dateutil", "pytz", "numpy", "pyarrow"):
        pytest.importorskip(library)
    for state in (5, "x", [TUPLE], [TUPLE, 1, 2], {}, {"a": 1}, {"_mgr": 1}, [TUPLE, None, {"x": 1}], b"\xff"):
        try:
            repr(transload.loads([message([NEW, 0, [], state], [name])]))
        except Exception:  # repr of half an object may raise what it likes, but not crash
            pass


@pytest.mark.parametrize("library", ["standard", "numpy", "pandas", "pyarrow", "scipy", "sklearn"])
def test_names_of_the_list_exist_or_are_another_versions(library: str) -> None:
    """A list of names that nobody has is a list that nobody reads: most must exist here."""
    if library not in ("standard", "numpy"):
        pytest.importorskip(library)
    names = importlib.import_module(f"transload.trusted.{library}").NAMES
    found = 0
    for name in names:
        module, _, path = name.partition(":")
        try:
            at: Any = importlib.import_module(module)
            for part in path.split("."):
                at = getattr(at, part)
            found += 1
        except (ImportError, AttributeError):
            pass
    assert found > 0.6 * len(names)


def test_loading_a_trusted_name_imports_its_library_alone() -> None:
    code = (
        "import sys, transload, msgpack\n"
        "header = msgpack.packb([1, {}, ['decimal:Decimal'], [], None, [], [9, 0, ['1.5']]])\n"
        "assert str(transload.loads([header])) == '1.5'\n"
        "print(*sorted({m.partition('.')[0] for m in sys.modules} & {'numpy', 'pandas', 'scipy', 'sklearn', 'pyarrow', 'dask', 'distributed', 'pickle', 'cloudpickle', 'uuid', 'fractions'}))\n"
    )
    got = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": ""}).stdout.split()
    assert set(got) <= {"pickle"}


def test_first_thing_a_process_reads_meets_the_stand_ins() -> None:
    """No object of NumPy was seen before, so its adapters are not there yet."""
    code = (
        "import transload, msgpack\n"
        "header = msgpack.packb([1, {}, ['numpy._core.multiarray:_reconstruct', 'builtins:int'], [], None, [], [9, 0, [[8, 1], [3, 0], b'b']]])\n"
        "try: transload.loads([header])\n"
        "except transload.Malformed as error: print(error)\n"
    )
    got = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "an array is rebuilt from its class" in got
