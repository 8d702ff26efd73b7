"""SciPy: sparse containers of all formats, and the objects that estimators hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg
from scipy import cluster, integrate, interpolate, linalg, odr, optimize, signal, spatial, special, stats
from scipy.spatial import transform

FORMATS = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")


def objects() -> Iterator[tuple[str, Any]]:
    """All of them with a label."""
    base = sp.random(50, 40, 0.1, format="coo", dtype="f4", random_state=0)
    for form in FORMATS:
        for kind in ("matrix", "array"):
            yield f"{form}_{kind}", getattr(sp, f"{form}_{kind}")(base)
            yield f"{form}_{kind} empty", getattr(sp, f"{form}_{kind}")((3, 4))
    for cls in (sp.csr_matrix, sp.csr_array):
        x = cls((np.ones(5), np.array([2, 0, 1, 1, 0]), np.array([0, 2, 5])), shape=(2, 3))
        x.indices, x.indptr = x.indices.astype("i8"), x.indptr.astype("i8")
        yield f"{cls.__name__} duplicates", x
    yield "coo 1-d", sp.coo_array(np.array([0, 1, 0, 2]))
    yield "csr 1-d", sp.csr_array(np.array([0, 1, 0, 2]))
    yield "coo 3-d", sp.coo_array(np.eye(3).reshape(3, 3, 1))
    yield "complex", sp.csr_array(np.array([[1 + 2j, 0]]))
    yield "bsr blocks", sp.bsr_array(np.kron(np.eye(3), np.ones((2, 2))), blocksize=(2, 2))
    yield "lil rows", sp.lil_array(np.array([[0, 1], [2, 0]]))
    yield "spline", interpolate.BSpline(np.arange(8.0), np.arange(4.0), 3)
    yield "frozen", [stats.norm(1, 2), stats.uniform(0, 1), stats.randint(1, 5), stats.loguniform(1e-3, 1), stats.expon(), stats.gamma(2.0), stats.beta(1, 2)]
    for group in (_spatial, _interpolate, _stats, _others):
        for label, make in group().items():
            yield label, make()


X, Y = np.arange(10.0), np.sin(np.arange(10.0))
POINTS = np.random.default_rng(0).random((40, 2))
_CUBE = np.array([[0, 0, 1.0], [0, 0, -1], [1, 0, 0], [0, 1, 0], [0, -1, 0], [-1, 0, 0]])


def _spatial() -> dict[str, Callable[[], Any]]:
    return {
        "k-d tree": lambda: spatial.KDTree(POINTS, leafsize=3), "compiled k-d tree": lambda: spatial.cKDTree(POINTS), "k-d tree in a box": lambda: spatial.KDTree(POINTS, boxsize=[1.0, 2.0]), "k-d tree of nothing": lambda: spatial.KDTree(np.zeros((0, 2))),
        "k-d tree of one": lambda: spatial.KDTree(np.zeros((1, 3))), "unbalanced k-d tree": lambda: spatial.cKDTree(np.exp2(np.arange(60.0))[:, None], leafsize=1, balanced_tree=False), "k-d tree and its points": lambda: [spatial.KDTree(POINTS), POINTS],
        "triangulation": lambda: spatial.Delaunay(POINTS), "triangulation, used": lambda: (lambda d: [d.find_simplex(POINTS[:3]), d.vertex_to_simplex, d.vertex_neighbor_vertices, d][-1])(spatial.Delaunay(POINTS)),
        "triangulation in space": lambda: spatial.Delaunay(np.random.default_rng(1).random((30, 3))), "hull": lambda: spatial.ConvexHull(POINTS), "Voronoi": lambda: (lambda v: (v.ridge_dict, v)[1])(spatial.Voronoi(POINTS)),
        "halfspaces": lambda: spatial.HalfspaceIntersection(np.array([[-1, 0.0, 0], [0, -1, 0], [1, 0, -1], [0, 1, -1]]), np.array([0.5, 0.5])), "Voronoi on a sphere": lambda: spatial.SphericalVoronoi(_CUBE), "rectangle": lambda: spatial.Rectangle([1], [0]),
        "rotation": lambda: transform.Rotation.from_euler("xyz", [10, 20, 30], degrees=True), "rotations": lambda: transform.Rotation.random(3, rng=1), "rigid": lambda: transform.RigidTransform.from_translation([[1, 2, 3], [4, 5, 6]]),
        "slerp": lambda: transform.Slerp([0, 1], transform.Rotation.random(2, rng=1)), "rotation spline": lambda: transform.RotationSpline([0, 1, 2], transform.Rotation.random(3, rng=1)),
    }  # fmt: skip


def _interpolate() -> dict[str, Callable[[], Any]]:
    grid, values = (X, X), np.outer(Y, Y)
    kinds = ("linear", "nearest", "nearest-up", "zero", "slinear", "quadratic", "cubic", "previous", "next")
    return {
        "cubic": lambda: interpolate.CubicSpline(X, np.c_[Y, Y], bc_type="natural"), "periodic": lambda: interpolate.CubicSpline(X, np.r_[Y[:-1], Y[0]], extrapolate="periodic", bc_type="periodic"), "Hermite": lambda: interpolate.CubicHermiteSpline(X, Y, Y),
        "pchip": lambda: interpolate.PchipInterpolator(X, Y), "akima": lambda: interpolate.Akima1DInterpolator(X, Y), "polynomials": lambda: [interpolate.PPoly(np.ones((3, 2)), [0, 1, 2]), interpolate.BPoly(np.ones((3, 2)) * 1j, [2, 1, 0], extrapolate=False)],
        "polynomials in two": lambda: interpolate.NdPPoly(np.ones((2, 2, 1, 3)), ([0, 1.0], [0, 1.0, 2, 3])), "B-spline of rows": lambda: interpolate.make_interp_spline(X, np.c_[Y, Y]), "B-spline in two": lambda: interpolate.NdBSpline((np.arange(8.0), np.arange(9.0)), np.ones((4, 6, 2)), (3, 2)),
        "smoothing": lambda: interpolate.make_smoothing_spline(X, Y), **{f"interp1d {kind}": lambda kind=kind: interpolate.interp1d(X, Y, kind, bounds_error=False, fill_value=(1.0, 2.0)) for kind in kinds},
        "interp1d beyond": lambda: interpolate.interp1d(X, np.c_[Y, Y].T, axis=1, fill_value="extrapolate"), **{f"grid {method}": lambda method=method: interpolate.RegularGridInterpolator(grid, values, method=method) for method in ("linear", "nearest", "slinear", "cubic", "quintic", "pchip")},
        "grid downwards": lambda: interpolate.RegularGridInterpolator((X[::-1].copy(), X), values * 1j, bounds_error=False, fill_value=None), "radial": lambda: interpolate.RBFInterpolator(POINTS, POINTS[:, 0], kernel="gaussian", epsilon=2.0),
        "radial of neighbours": lambda: interpolate.RBFInterpolator(POINTS, POINTS * 1j, neighbors=5), "old radial": lambda: interpolate.Rbf(POINTS[:, 0], POINTS[:, 1], POINTS[:, 0]), "Krogh": lambda: interpolate.KroghInterpolator(X, Y),
        "barycentric": lambda: interpolate.BarycentricInterpolator(X, Y, rng=1), "rational": lambda: [interpolate.AAA(X, Y), interpolate.FloaterHormannInterpolator(X, Y)], "smooth curve": lambda: interpolate.UnivariateSpline(X, Y, s=0.01),
        "curve of knots": lambda: interpolate.LSQUnivariateSpline(X, Y, [4, 5], ext=1), "surface": lambda: interpolate.RectBivariateSpline(X, X, values, kx=2), "smooth surface": lambda: interpolate.SmoothBivariateSpline(*np.random.default_rng(2).random((3, 50))),
        "surface of a sphere": lambda: interpolate.RectSphereBivariateSpline(np.linspace(0.1, 3, 10), np.linspace(0.1, 6, 10), np.ones((10, 10))), "triangles": lambda: interpolate.LinearNDInterpolator(POINTS, POINTS[:, :1], rescale=True),
        "complex triangles": lambda: interpolate.LinearNDInterpolator(POINTS, POINTS[:, 0] * 1j), "smooth triangles": lambda: interpolate.CloughTocher2DInterpolator(POINTS, POINTS), "nearest": lambda: interpolate.NearestNDInterpolator(POINTS, POINTS),
        "tuple of a spline": lambda: interpolate.splrep(X, Y),
    }  # fmt: skip


def _stats() -> dict[str, Callable[[], Any]]:
    eye = np.eye(2)
    return {
        "frozen, its generator": lambda: _seeded(stats.norm(1, scale=np.ones(3))), "distributions": lambda: [stats.norm, stats.poisson, stats.levy_stable, stats.multivariate_normal, stats.norm(1, 2).dist, stats.vonmises_line],
        "histogram": lambda: stats.rv_histogram(np.histogram(X, 3)), "frozen histogram": lambda: stats.rv_histogram(np.histogram(X, 3), density=True)(1), "sample": lambda: stats.rv_discrete(name="dice", values=([1, 2], [0.25, 0.75])),
        "frozen sample": lambda: stats.rv_discrete(values=([1, 2], [0.25, 0.75]))(2), "density": lambda: stats.gaussian_kde(POINTS.T, weights=np.arange(1.0, 41)), "density by Silverman": lambda: stats.gaussian_kde(X, "silverman"),
        "in many dimensions": lambda: [
            stats.multivariate_normal([0, 0], eye), stats.dirichlet([1, 2.0]), stats.wishart(3, eye), stats.invwishart(3, eye), stats.ortho_group(3), stats.matrix_normal(eye), stats.multivariate_t([0, 0], eye), stats.vonmises_fisher([1, 0], 2),
            stats.uniform_direction(3), stats.special_ortho_group(3), stats.unitary_group(3), stats.random_correlation([0.5, 1.5]), stats.dirichlet_multinomial([1, 2.0], 3), stats.normal_inverse_gamma()],
        "covariances": lambda: [stats.Covariance.from_diagonal([1, 2.0]), stats.Covariance.from_cholesky(eye), stats.Covariance.from_precision(eye)], "empirical": lambda: stats.ecdf(X), "censored": lambda: stats.CensoredData(X, interval=[[1, 2]]),
        "results": lambda: [
            stats.linregress(X, Y), stats.pearsonr(X, Y), stats.spearmanr(X, Y), stats.ks_2samp(X, Y), stats.mode(X), stats.describe(X), stats.chisquare([1, 2]), stats.mannwhitneyu(X, Y), stats.f_oneway(X, Y), stats.shapiro(X), stats.wilcoxon(X),
            stats.chi2_contingency([[1, 2], [3, 4]]), stats.theilslopes(X, Y), stats.tukey_hsd(X, Y), stats.binomtest(3, 5), stats.kendalltau(X, Y), stats.sigmaclip(X), stats.cumfreq(X), stats.binned_statistic(X, Y), stats.bayes_mvs(X),
            stats.contingency.odds_ratio([[1, 2], [3, 4]]), stats.contingency.relative_risk(1, 2, 3, 4), stats.contingency.crosstab([1, 2], [1, 2]), stats.median_test(X, Y), stats.alexandergovern(X, Y), stats.logrank(X, Y), stats.quantile_test(X),
            stats.bootstrap((X,), np.mean, n_resamples=9, rng=1), stats.pearsonr(X, Y).confidence_interval()],
        "errors": lambda: [stats.FitError("x"), stats.ConstantInputWarning("x"), stats.DegenerateDataWarning("x")],
    }  # fmt: skip


def _seeded(frozen: Any) -> Any:
    frozen.random_state = 3
    frozen.rvs(3)
    return frozen


def _square(v: Any) -> float:
    return float((v**2).sum())


def _others() -> dict[str, Callable[[], Any]]:
    return {
        "systems": lambda: [signal.lti([1], [1, 2]), signal.dlti([1], [1, 2], dt=0.1), signal.StateSpace(*[np.eye(1)] * 4), signal.ZerosPolesGain([1], [2], 3, dt=0.5)], "transforms": lambda: [signal.ShortTimeFFT(np.ones(4), 2, 1.0), signal.CZT(8), signal.ZoomFFT(8, [0.1, 0.2])],
        "operators": lambda: (lambda a: [a, a + a, a.T, a.H, 2 * a, a @ a, a**2, scipy.sparse.linalg.LaplacianNd((2, 2))])(scipy.sparse.linalg.aslinearoperator(np.eye(2))), "minimum": lambda: optimize.minimize(_square, [1.0, 2.0], method="L-BFGS-B"),
        "results of optimize": lambda: [optimize.linprog([1, 2], bounds=[(0, 1), (0, 1)]), optimize.root_scalar(lambda v: v - 1, bracket=[0, 3]), optimize.milp([1, 2])],
        "constraints": lambda: [optimize.Bounds(0, 1), optimize.LinearConstraint(np.eye(2), 0, 1), optimize.BFGS(), optimize.SR1()],
        **{f"solution by {method}": lambda method=method: integrate.solve_ivp(_decay, (0, 1), [1.0], dense_output=True, method=method) for method in ("RK23", "RK45", "DOP853", "Radau", "BDF", "LSODA")},
        "boundary": lambda: integrate.solve_bvp(lambda a, b: b * 0, lambda a, b: a, np.arange(3.0), np.ones((1, 3))), "regression": lambda: [odr.Data(X, Y), odr.ODR(odr.Data(X, Y), odr.unilinear, [1.0, 1.0]).run()],
        "clusters": lambda: cluster.hierarchy.to_tree(cluster.hierarchy.linkage(POINTS)), "disjoint sets": lambda: (lambda d: (d.merge(1, 2), d.merge(3, 4), d.merge(1, 4), d)[-1])(cluster.hierarchy.DisjointSet([1, 2, 3, 4, 5])),
        "functions": lambda: [special.gamma, special.erf, special.softmax, special.logsumexp, special.comb, special.jv, linalg.inv, stats.zscore, stats.iqr],
        "warnings": lambda: [linalg.LinAlgWarning("x"), optimize.OptimizeWarning("x"), sp.SparseEfficiencyWarning("x"), integrate.IntegrationWarning("x"), signal.BadCoefficients("x"), spatial.QhullError("x"), special.SpecialFunctionError("x")],
    }  # fmt: skip


def _decay(t: float, v: Any) -> Any:
    return -v


# What pickle 5 takes and family host does not, with the word of the reason (docs/objects.md).
PICKLED: dict[str, tuple[Callable[[], Any], str]] = {
    "Sobol": (lambda: stats.qmc.Sobol(2, rng=1), "scipy.stats._qmc:Sobol"), "Normal": (lambda: stats.Normal(mu=1.0, sigma=2.0), "scipy.stats._new_distributions"), "model": (lambda: odr.unilinear, "scipy.odr._models"),
    "continuous": (lambda: stats.rv_continuous(name="own"), "scipy.stats._distn_infrastructure:rv_continuous"), "density of a number": (lambda: stats.rv_discrete(values=([1], [1.0])).__class__, "scipy.stats._distn_infrastructure:rv_sample"),
}  # fmt: skip
