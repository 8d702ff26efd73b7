"""scipy.spatial: trees and triangulations, which compiled code walks without looking, and rotations."""

from __future__ import annotations

from typing import Any

from .._registry import register_named
from ._checks import charge, compact, integer, need, same_parts, within
from ._stand_ins import class_of, of_state

# ── k-d trees ────────────────────────────────────────────────────────────────────────────────────────────────

# A node as it lies in memory (ckdtree_decl.h); two of its words are addresses.
_NODE = [("split_dim", "i8"), ("children", "i8"), ("split", "f8"), ("start", "i8"), ("end", "i8"), ("less_at", "u8"), ("greater_at", "u8"), ("less", "i8"), ("greater", "i8")]
_PARTS = [(name, form) for name, form in _NODE if name not in ("children", "less_at", "greater_at")]
_DEEPEST = 1024  # trees are walked by recursion


def _encode_tree(tree: Any) -> tuple[Any, ...]:
    import numpy as np

    raw, _, _, _, leafsize, maxes, mins, _, boxsize, periods = tree.__getstate__()
    if raw.size % np.dtype(_NODE).itemsize:
        raise NotImplementedError("a k-d tree whose nodes lie otherwise than they are known to")
    nodes = np.frombuffer(raw.tobytes(), _NODE)
    parts = np.zeros(len(nodes), _PARTS)
    for name, _form in _PARTS:
        parts[name] = nodes[name]
    leaves = nodes["split_dim"] == -1
    for name in ("less", "greater", "split"):
        parts[name][leaves] = 0
    try:
        _check_nodes(parts, len(tree.data), tree.m)
        need(bool((nodes["children"] == nodes["end"] - nodes["start"]).all()), "nodes that count otherwise")
    except ValueError as error:
        raise NotImplementedError(f"a k-d tree: {error}") from None
    return type(tree).__name__, parts, tree.data, leafsize, maxes, mins, tree.indices, boxsize, periods


def _check_nodes(nodes: Any, npoints: int, ndim: int) -> None:
    """A tree whose leaves are the points from 0 to `npoints`, one after the other, each node met once."""
    import numpy as np

    nnodes = len(nodes)
    need(nnodes > 0 and nodes["start"][0] == 0 and nodes["end"][0] == npoints, "the root does not hold all points")
    need(bool((nodes["start"] <= nodes["end"]).all()), "a node ends before it starts")
    inner = np.flatnonzero(nodes["split_dim"] != -1)
    within(nodes["split_dim"][inner], 0, ndim, "the axis of a node")
    less, greater = nodes["less"][inner], nodes["greater"][inner]
    for children in (less, greater):
        need(bool((children > inner).all()) and (not len(children) or int(children.max()) < nnodes), "a node below itself, or outside of the tree")
    counts = np.bincount(np.concatenate((less, greater)), minlength=nnodes)
    need(counts[0] == 0 and bool((counts[1:] == 1).all()), "a node that is met twice, or never")
    parts = nodes[inner]
    need(
        bool((nodes["start"][less] == parts["start"]).all() and (nodes["end"][less] == nodes["start"][greater]).all() and (nodes["end"][greater] == parts["end"]).all()),
        "the points of a node are not those of its two",
    )
    level, depth = np.zeros(1, np.int64), 0
    while len(level):
        depth += 1
        need(depth <= _DEEPEST, f"a tree deeper than {_DEEPEST}")
        level = level[nodes["split_dim"][level] != -1]
        level = np.concatenate((nodes["less"][level], nodes["greater"][level]))


_TREES = {"cKDTree": "scipy.spatial._ckdtree", "KDTree": "scipy.spatial._kdtree"}


def _decode_tree(value: Any) -> Any:
    import numpy as np

    need(type(value) is tuple and len(value) == 9, "a k-d tree is nodes, points, bounds and indices")
    name, parts, data, leafsize, maxes, mins, indices, boxsize, periods = value
    need(type(name) is str and name in _TREES, "{} is no k-d tree", name)
    npoints, ndim = compact(data, "the points", "f8", (None, None)).shape
    integer(leafsize, "the size of a leaf", 1, (1 << 62))
    for bounds in (maxes, mins):
        compact(bounds, "the bounds of the points", "f8", (ndim,))
    within(compact(indices, "the indices of the points", "i8", (npoints,)), 0, npoints, "the indices of the points")
    need((boxsize is None) == (periods is None), "a box without its periods")
    if boxsize is not None:
        compact(boxsize, "the size of the box", "f8", (ndim,))
        compact(periods, "the periods of the box", "f8", (2 * ndim,))
    _check_nodes(compact(parts, "the nodes", _PARTS, (None,)), npoints, ndim)
    charge(len(parts) * 72)
    nodes = np.zeros(len(parts), _NODE)
    for part, _form in _PARTS:
        nodes[part] = parts[part]
    nodes["children"] = nodes["end"] - nodes["start"]
    cls = class_of(_TREES[name], name)
    tree = cls.__new__(cls)
    tree.__setstate__((nodes.view("S1"), data, npoints, ndim, leafsize, maxes, mins, indices, boxsize, periods))
    return tree


register_named([f"{module}:{name}" for name, module in _TREES.items()], "scipy.tree", _encode_tree, _decode_tree)


# ── Triangulations and hulls ─────────────────────────────────────────────────────────────────────────────────

_MOST_DIMENSIONS = 30  # compiled code has room for so many


def _check_closed(state: dict[str, Any]) -> None:
    """What Qhull found; Qhull itself is not part of it."""
    need(state.get("_qhull") is None, "a triangulation that is not closed")


def _check_triangulation(state: dict[str, Any]) -> None:
    same_parts(state, ("_points", "simplices", "neighbors", "equations", "min_bound", "max_bound", "ndim", "npoints", "nsimplex", "coplanar"), "a triangulation")
    _check_closed(state)
    npoints, ndim = compact(state["_points"], "the points", "f8", (None, None)).shape
    need(0 < ndim <= _MOST_DIMENSIONS, f"{ndim} dimensions")
    nsimplex = len(compact(state["simplices"], "the simplices", "i4", (None, ndim + 1)))
    within(state["simplices"], 0, npoints, "the simplices")
    within(compact(state["neighbors"], "the neighbours", "i4", (nsimplex, ndim + 1)), -1, nsimplex, "the neighbours")
    compact(state["equations"], "the equations", "f8", (nsimplex, ndim + 2))
    for part in ("min_bound", "max_bound"):
        compact(state[part], "the bounds of the points", "f8", (ndim,))
    need((state["ndim"], state["npoints"], state["nsimplex"]) == (ndim, npoints, nsimplex), "counts that are not those of the arrays")
    for part in ("paraboloid_scale", "paraboloid_shift"):
        need(isinstance(state.get(part), float), f"{part} is no number")
    coplanar = compact(state["coplanar"], "the coplanar points", "i4", (None, 3))
    for column, most in ((0, npoints), (1, nsimplex), (2, npoints)):
        within(coplanar[:, column], 0, most, "the coplanar points")
    if state.get("_transform") is not None:
        compact(state["_transform"], "the transforms", "f8", (nsimplex, ndim + 1, ndim))
    if state.get("_vertex_to_simplex") is not None:
        within(compact(state["_vertex_to_simplex"], "the simplices of the points", "i4", (npoints,)), -1, nsimplex, "the simplices of the points")
    if state.get("_vertex_neighbor_vertices") is not None:
        need(type(state["_vertex_neighbor_vertices"]) is tuple and len(state["_vertex_neighbor_vertices"]) == 2, "the neighbours of the points are a pair")
        indptr, indices = state["_vertex_neighbor_vertices"]
        compact(indptr, "the neighbours of the points", "i4", (npoints + 1,))
        within(compact(indices, "the neighbours of the points", "i4", (None,)), 0, npoints, "the neighbours of the points")
        need(int(indptr[0]) == 0 and int(indptr[-1]) <= len(indices) and bool((indptr[1:] >= indptr[:-1]).all()), "the neighbours of the points are not in order")


def _check_sphere(state: dict[str, Any]) -> None:
    same_parts(state, ("_simplices", "regions", "points"), "a Voronoi diagram")
    nsimplex = len(compact(state["_simplices"], "the simplices", "i4", (None, None)))
    regions = state["regions"]
    need(type(regions) is list and len(regions) <= len(state["points"]), "as many regions as points are needed")
    for region in regions:
        need(type(region) is list and all(0 <= int(simplex) < nsimplex for simplex in region), "a region outside of the simplices")


def _attributes(obj: Any) -> dict[str, Any]:
    if getattr(obj, "_qhull", None) is not None:
        raise NotImplementedError("a triangulation that is not closed")
    return dict(obj.__dict__)


for _name, _module, _check in (
    ("Delaunay", "scipy.spatial._qhull", _check_triangulation), ("ConvexHull", "scipy.spatial._qhull", _check_closed), ("Voronoi", "scipy.spatial._qhull", _check_closed),
    ("HalfspaceIntersection", "scipy.spatial._qhull", _check_closed), ("SphericalVoronoi", "scipy.spatial._spherical_voronoi", _check_sphere),
):  # fmt: skip
    register_named([f"{_module}:{_name}"], f"scipy.{_name}", _attributes, of_state(_module, _name, _check))


# ── Rotations ────────────────────────────────────────────────────────────────────────────────────────────────


def _encode_rotation(rotation: Any) -> tuple[Any, ...]:
    import numpy as np

    quaternions, single = rotation.__getstate__()
    if type(quaternions) is not np.ndarray:
        raise NotImplementedError("rotations in another library's arrays")
    return quaternions, single


def _decode_rotation(value: Any) -> Any:
    need(type(value) is tuple and len(value) == 2 and type(value[1]) is bool, "a rotation is quaternions and whether it is single")
    _check_stack(value[0], (4,), "quaternions")
    cls = class_of("scipy.spatial.transform._rotation", "Rotation")
    rotation = cls.__new__(cls)
    rotation.__setstate__(value)
    return rotation


def _check_stack(value: Any, shape: tuple[int, ...], what: str) -> None:
    import numpy as np

    need(type(value) is np.ndarray and value.dtype == np.float64 and value.shape[-len(shape) :] == shape and value.ndim < 16, f"no stack of {what}")
    charge(value.nbytes)


def _encode_transform(transform: Any) -> Any:
    import numpy as np

    (matrix,) = transform.__reduce__()[1]
    if type(matrix) is not np.ndarray:
        raise NotImplementedError("transforms in another library's arrays")
    return matrix


def _decode_transform(matrix: Any) -> Any:
    _check_stack(matrix, (4, 4), "matrices")
    return class_of("scipy.spatial.transform._rigid_transform", "RigidTransform").from_matrix(matrix)


register_named(["scipy.spatial.transform._rotation:Rotation"], "scipy.Rotation", _encode_rotation, _decode_rotation)
register_named(["scipy.spatial.transform._rigid_transform:RigidTransform"], "scipy.RigidTransform", _encode_transform, _decode_transform)
