"""SciPy: sparse containers of all formats, splines, frozen distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import transload

sp = pytest.importorskip("scipy.sparse")

from support import objects_scipy as objects  # noqa: E402
from support.same import difference  # noqa: E402
from support.trips import host, host_readonly  # noqa: E402

_ALL = dict(objects.objects())


@pytest.mark.parametrize("label", _ALL)
def test_object_arrives_whole(label: str) -> None:
    assert difference(_ALL[label], host(_ALL[label])) is None


@pytest.mark.parametrize("form", objects.FORMATS)
def test_product_from_read_only_frames(form: str) -> None:
    matrix = getattr(sp, f"{form}_array")(sp.random_array((30, 20), density=0.2, random_state=1))
    assert np.array_equal(host_readonly(matrix) @ np.ones(20), matrix @ np.ones(20))


def test_flags_and_duplicates_are_kept() -> None:
    arrived = host(_ALL["csr_array duplicates"])
    assert arrived.nnz == 5 and arrived.indices.dtype == np.int64
    assert not arrived.has_canonical_format and not arrived.has_sorted_indices


def test_arrays_of_a_csr_are_frames_of_its_own_memory() -> None:
    matrix = sp.random_array((1000, 1000), density=0.1, format="csr")
    frames = transload.dumps(matrix, families=("host",))[1:]
    assert np.shares_memory(np.frombuffer(frames[-1], matrix.data.dtype), matrix.data) or np.shares_memory(np.frombuffer(frames[0], matrix.data.dtype), matrix.data)


@pytest.mark.parametrize(
    ("form", "part", "value"),
    [
        ("csr", "indices", np.array([0, 1, 99], "i4")), ("csr", "indices", np.array([0, -1, 1], "i4")), ("csr", "indptr", np.array([0, 2, 1, 3], "i4")),
        ("csr", "indptr", np.array([0, 1, 2, 10**6], "i4")), ("csr", "indptr", np.array([1, 1, 2, 3], "i4")), ("csr", "indptr", np.array([0, 3], "i4")),
        ("csr", "data", np.ones(1)), ("csr", "_shape", (3, -4)), ("csr", "_shape", (3, 2**70)), ("csr", "indices", np.zeros(3)),
        ("csc", "indices", np.array([0, 1, 99], "i4")), ("bsr", "data", np.ones((3, 0, 1))), ("bsr", "indices", np.array([0, 1, 99], "i4")), ("coo", "coords", (np.zeros(3, "i4"), np.full(3, 9, "i4"))),
        ("coo", "coords", (np.zeros(3, "i4"),)), ("dia", "offsets", np.zeros(7, "i4")), ("lil", "rows", np.array([[0], [1], [99]], object)), ("lil", "data", np.array([1, 2, 3], object)),
    ],
)
def test_container_that_points_outside_is_refused(form: str, part: str, value: Any) -> None:
    matrix = getattr(sp, f"{form}_array")(np.eye(3, 4))
    if form == "lil" and part == "rows":
        value = np.empty(3, object)
        value[:] = [[0], [1], [99]]
    matrix.__dict__[part] = value
    message = transload.dumps(matrix, families=("host",))
    with pytest.raises(transload.Malformed):
        transload.loads(message)


def _encoded(label: str) -> tuple[str, Any]:
    """The wire name of an object's adapter, and what it writes."""
    from transload import _tables

    host(_ALL[label])
    cls = type(_ALL[label])
    wire_name, encode = _tables.adapters_by_type[f"{cls.__module__}:{cls.__qualname__}"]
    assert callable(encode)
    return wire_name, encode(_ALL[label])


def _with(value: Any, at: Any, part: Any) -> Any:
    """The value with another part; `at` is a key, a place, or a path of them."""
    first, *rest = at if isinstance(at, list) else [at]
    old = value[first]
    new = _with(old, rest, part) if rest else part(old) if callable(part) else part
    if isinstance(value, dict):
        return {**value, first: new}
    if isinstance(value, np.ndarray):
        copy = value.copy()
        copy[first] = new
        return copy
    return (*value[:first], new, *value[first + 1 :])


def _at(index: Any, number: Any) -> Any:
    def change(array: Any) -> Any:
        copy = array.copy()
        copy[index] = number
        return copy

    return change


_NODES, _INDICES, _BOX, _PERIODS = 1, 6, 7, 8
_WRONG: list[tuple[str, Any, Any]] = [
    ("k-d tree", [_NODES, "less"], _at(0, 0)), ("k-d tree", [_NODES, "less"], _at(0, 10**6)), ("k-d tree", [_NODES, "less"], _at(0, -1)), ("k-d tree", [_NODES, "greater"], _at(0, 1)), ("k-d tree", [_NODES, "split_dim"], _at(0, 2)),
    ("k-d tree", [_NODES, "split_dim"], _at(0, -2)), ("k-d tree", [_NODES, "end"], _at(-1, 10**6)), ("k-d tree", [_NODES, "start"], _at(-1, -5)), ("k-d tree", [_NODES, "end"], _at(0, 39)), ("k-d tree", [_NODES, "split_dim"], _at(slice(None), -1)),
    ("k-d tree", _NODES, lambda nodes: nodes[:0]), ("k-d tree", _NODES, lambda nodes: nodes[:-1]), ("k-d tree", _NODES, lambda nodes: nodes["less"].copy()), ("k-d tree", _INDICES, _at(0, 40)), ("k-d tree", _INDICES, _at(0, -1)),
    ("k-d tree", _INDICES, lambda indices: indices[:-1].copy()), ("k-d tree", _INDICES, lambda indices: indices.astype("i4")), ("k-d tree", 2, lambda data: data[:, ::-1]), ("k-d tree", 2, lambda data: data.astype("f4")), ("k-d tree", 2, lambda data: data[:10].copy()),
    ("k-d tree", 4, np.ones(1)), ("k-d tree", 3, 0), ("k-d tree", 3, 2.5), ("k-d tree", 0, "Rectangle"), ("k-d tree", _BOX, np.ones(2)), ("k-d tree in a box", _PERIODS, np.ones(2)), ("k-d tree in a box", _BOX, None),
    ("triangulation", "simplices", _at((0, 0), 40)), ("triangulation", "simplices", _at((0, 0), -1)), ("triangulation", "neighbors", _at((0, 0), 10**6)), ("triangulation", "neighbors", _at((0, 0), -2)), ("triangulation", "equations", lambda e: e[:-1].copy()),
    ("triangulation", "_points", lambda p: p.T), ("triangulation", "min_bound", np.zeros(1)), ("triangulation", "npoints", 50), ("triangulation", "nsimplex", 10**6), ("triangulation", "paraboloid_scale", "x"), ("triangulation", "coplanar", np.full((1, 3), 99, "i4")),
    ("triangulation", "_transform", np.zeros((1, 3, 2))), ("triangulation, used", "_vertex_to_simplex", _at(0, 10**6)), ("triangulation, used", ["_vertex_neighbor_vertices", 0], _at(1, 10**6)), ("triangulation, used", ["_vertex_neighbor_vertices", 1], _at(0, 99)),
    ("triangulation", "_qhull", 5), ("hull", "_qhull", 5), ("Voronoi on a sphere", "regions", [[99]]), ("Voronoi on a sphere", "regions", [[-1]] * 6), ("Voronoi on a sphere", "regions", [[0]] * 99), ("Voronoi on a sphere", "_simplices", np.zeros((1, 3), "i8")),
    ("rotation", 0, np.ones((1, 3))), ("rotation", 0, np.ones((1, 4), "f4")), ("rotation", 1, 5), ("rotation", 0, [[0, 0, 0, 1]]),
    ("cubic", 1, lambda c: c[:, :-1]), ("cubic", 1, lambda c: c[:0]), ("cubic", 1, lambda c: c.astype(object)), ("cubic", 2, _at(3, -5.0)), ("cubic", 3, "x"), ("cubic", 4, 5), ("cubic", 0, "interp1d"), ("polynomials in two", 0, lambda c: c[:, :, :, :2]), ("polynomials in two", 1, (np.arange(2.0),) * 3),
    ("polynomials in two", 1, [1]), ("B-spline of rows", 1, lambda c: c[:3]), ("B-spline of rows", 2, 10**9), ("B-spline of rows", 0, lambda t: t[::-1]), ("B-spline in two", 1, lambda c: c[:, :3].copy()), ("B-spline in two", 2, (3, 99)), ("B-spline in two", 2, (3,)),
    ("B-spline in two", [0, 0], lambda t: t[::-1].copy()), ("smooth curve", [2, "_eval_args", 2], 99), ("smooth curve", [2, "_eval_args", 1], np.ones(2)), ("smooth curve", [2, "_eval_args", 0], lambda t: t[:5]), ("smooth curve", [2, "ext"], 9), ("smooth curve", 0, "interp1d"),
    ("smooth curve", [2, "_data", 12], _at(0, 10**6)), ("smooth curve", [2, "_data", 12], _at(0, -1)), ("smooth curve", [2, "_data", 7], 10**6), ("smooth curve", [2, "_data", 11], np.ones(3)), ("smooth curve", [2, "_data", 0], np.ones(3)), ("smooth curve", [2, "_data"], (1,)),
    ("surface", ["tck", 2], lambda c: c[:5]), ("surface", "degrees", (3, 9)), ("surface", ["tck", 0], lambda t: t[::-1]), ("surface", "degrees", (3,)), ("grid linear", "_values", lambda v: v[:5].copy()), ("grid linear", "_values", lambda v: v[0].copy()),
    ("grid linear", ["_grid", 0], lambda x: x[::-1].copy()), ("grid linear", "_grid", (np.arange(10),) * 2), ("grid linear", "method", "eval"), ("grid cubic", "_spline", 5), ("grid linear", "_descending_dimensions", (7,)), ("grid linear", "fill_value", "x"),
    ("triangles", "values", lambda v: v[:3].copy()), ("triangles", "values", lambda v: v.astype("f4")), ("triangles", "tri", None), ("triangles", "points", lambda p: p[:, :1].copy()), ("triangles", "is_complex", True), ("triangles", "scale", np.ones(5)),
    ("smooth triangles", "grad", lambda g: g[:3]), ("smooth triangles", "grad", lambda g: g.astype("c16")), ("nearest", "tree", None), ("nearest", "values", np.ones(3)),
    ("radial", [0, 8], lambda p: p[:, :1].copy()), ("radial", [0, 0], lambda y: y[:3].copy()), ("radial", [0, 6], "eval"), ("radial", [1, 2], lambda c: c[:3]), ("radial", [1, 0], np.ones(1)), ("radial", [0, 8], lambda p: p - 5), ("radial of neighbours", [0, 4], 99),
    ("radial of neighbours", [1, 0], None), ("density", "_weights", np.ones(3)), ("density", "cho_cov", np.ones((1, 1))), ("density", "d", 5), ("density by Silverman", "covariance_factor", "resample"), ("density", "dataset", lambda d: d.astype(object)),
    ("histogram", 0, "eval"), ("histogram", [1, 0], (np.array(["x"]), np.arange(2.0))), ("histogram", 2, 5), ("sample", [1, 0], ([1, 2], [0.5, 0.6])), ("sample", [1, 1, "shapes"], "a, b"), ("sample", [1, 1], {}), ("clusters", "count", 5), ("clusters", "left", 5),
    ("disjoint sets", ["_parents", 2], 9), ("disjoint sets", "_parents", {1: 2, 2: 1, 3: 3, 4: 4, 5: 5}), ("disjoint sets", "_nbrs", {1: 2, 2: 2, 3: 3, 4: 4, 5: 5}), ("disjoint sets", "_sizes", {}),
]  # fmt: skip


@pytest.mark.parametrize(("label", "at", "part"), _WRONG)
def test_parts_that_point_outside_are_refused(label: str, at: Any, part: Any) -> None:
    from transload import _tables

    wire_name, value = _encoded(label)
    _tables.adapters_by_name[wire_name](value)
    with pytest.raises((ValueError, TypeError)):
        _tables.adapters_by_name[wire_name](_with(value, at, part))


def test_tree_that_is_too_deep_to_be_walked_is_pickles() -> None:
    spatial = pytest.importorskip("scipy.spatial")
    tree = spatial.cKDTree(np.exp2(np.arange(-1000.0, 1000.0))[:, None], leafsize=1, balanced_tree=False, compact_nodes=False)
    with pytest.raises(transload.Unsupported):
        transload.dumps(tree, families=("host",))
    message = transload.dumps(tree, families=("host", "pickle"))
    assert transload.loads(message, families=("host", "pickle")).query([4.0])[0] == 0


@pytest.mark.parametrize("trip", [host, host_readonly])
def test_trees_triangles_and_splines_answer_as_before(trip: Any) -> None:
    where = np.random.default_rng(5).random((20, 2))
    for label in ("k-d tree", "compiled k-d tree", "k-d tree in a box"):
        for before, after in zip(_ALL[label].query(where, k=3), trip(_ALL[label]).query(where, k=3), strict=True):
            assert np.array_equal(before, after)
    assert trip(_ALL["k-d tree"]).query_pairs(0.2) == _ALL["k-d tree"].query_pairs(0.2)
    assert np.array_equal(trip(_ALL["triangulation"]).find_simplex(where), _ALL["triangulation"].find_simplex(where))
    for label in ("triangles", "smooth triangles", "nearest", "radial", "radial of neighbours", "B-spline in two"):
        assert np.array_equal(trip(_ALL[label])(where), _ALL[label](where), equal_nan=True)
    for label in ("cubic", "pchip", "akima", "B-spline of rows", "interp1d cubic", "interp1d previous", "smooth curve", "Krogh", "barycentric", "density by Silverman"):
        assert np.array_equal(trip(_ALL[label])(where[:, 0]), _ALL[label](where[:, 0])), label
    for label in (label for label in _ALL if label.startswith("grid ")):
        assert np.array_equal(trip(_ALL[label])(where), _ALL[label](where)), label
    assert np.array_equal(trip(_ALL["surface"])(where[0], where[1], grid=False), _ALL["surface"](where[0], where[1], grid=False))
    solution = _ALL["solution by RK45"]
    assert np.array_equal(trip(solution).sol(0.5), solution.sol(0.5)) and trip(solution).message == solution.message


def test_curve_may_be_fitted_on() -> None:
    from scipy import interpolate

    smooth, through = _ALL["smooth curve"], interpolate.InterpolatedUnivariateSpline(objects.X, objects.Y)
    arrived = host(smooth)
    assert np.array_equal(arrived(objects.X), smooth(objects.X))
    arrived.set_smoothing_factor(0.001)
    host(through).set_smoothing_factor(0.5)  # SciPy leaves what this looks at as it found the memory


def test_frozen_keeps_a_generator_of_its_own_and_shares_the_global_one() -> None:
    from scipy import stats

    frozen = _ALL["frozen, its generator"]
    arrived = host(frozen)
    assert np.array_equal(arrived.rvs(3), frozen.rvs(3))
    assert host(stats.norm(0, 1)).random_state is stats.norm(0, 1).random_state
    assert host(stats.norm) is stats.norm and host(stats.multivariate_normal) is stats.multivariate_normal


def test_result_of_a_t_test_arrives_though_pickle_does_not_take_it() -> None:
    from scipy import stats

    result = stats.ttest_ind(np.arange(9.0), np.arange(3.0, 12.0))
    arrived = host(result)
    assert tuple(arrived) == tuple(result) and arrived.df == result.df and arrived.confidence_interval() == result.confidence_interval()


@pytest.mark.parametrize("label", objects.PICKLED)
def test_what_is_text_that_is_run_or_in_the_middle_of_its_work_is_pickles(label: str) -> None:
    make, reason = objects.PICKLED[label]
    with pytest.raises(transload.Unsupported, match=reason):
        transload.dumps(make(), families=("host",))
    assert transload.loads(transload.dumps(make(), families=("host", "pickle")), families=("host", "pickle")) is not None


@pytest.mark.parametrize("args", [(range(1 << 62),), ("x",), ([[[range(1 << 62)]]],), ({"a": 1},), (np.broadcast_to(1.0, (1 << 40,)),)])
def test_parameters_are_numbers(args: Any) -> None:
    from transload import _tables

    host(_ALL["frozen"])
    with pytest.raises(ValueError):
        _tables.adapters_by_name["scipy.frozen"](("norm", args, {}))


@pytest.mark.parametrize("value", [(np.arange(8.0), np.ones(1), 3, True, 0), (np.arange(8.0)[::-1], np.ones(8), 3, True, 0), (np.arange(8.0), np.ones(8), 10**9, True, 0), (np.arange(8.0), np.ones(8), 3, "x", 0)])
def test_spline_that_points_outside_is_refused(value: Any) -> None:
    from transload import _tables

    host(_ALL["spline"])
    with pytest.raises(ValueError):
        _tables.adapters_by_name["scipy.BSpline"](value)


@pytest.mark.parametrize("name", ["norm.__class__", "__name__", "linalg", "test", "norm_gen"])
def test_frozen_takes_names_of_distributions_only(name: str) -> None:
    from transload import _tables

    host(_ALL["frozen"])
    with pytest.raises(ValueError):
        _tables.adapters_by_name["scipy.frozen"]((name, (), {}))
