"""scipy.stats, scipy.cluster: distributions by name and parameters, for their state is text that is run; densities and trees by checked parts."""

from __future__ import annotations

from typing import Any

from .._registry import register_named
from ._checks import charge, in_memory, integer, need, same_parts
from ._stand_ins import class_of, of_state


def _stats() -> Any:
    import scipy.stats

    return scipy.stats


# ── Distributions ────────────────────────────────────────────────────────────────────────────────────────────

_SAMPLE_PARTS = ("name", "badvalue", "moment_tol", "inc", "longname", "shapes")


def _encode_distribution(distribution: Any) -> tuple[Any, ...]:
    """(kind, parts, generator): generator is None where it is NumPy's global one, which each process has its own of."""
    import numpy as np

    stats = _stats()
    generator = distribution._random_state
    if generator is np.random.mtrand._rand:
        generator = None
    known: Any = getattr(stats, str(distribution.name), None)
    if known is distribution:
        return "itself", distribution.name, None
    parameters = distribution._updated_ctor_param()
    if type(distribution) is stats.rv_histogram:
        if set(distribution.__dict__) - set(stats.rv_histogram((np.ones(1), np.arange(2))).__dict__):
            raise NotImplementedError("a histogram with attributes of its own")
        return "histogram", (distribution._histogram, distribution._density, distribution._ctor_param.get("name")), generator
    if type(distribution).__qualname__ == "rv_sample":
        return "sample", (parameters["values"], {part: distribution._ctor_param[part] for part in _SAMPLE_PARTS}), generator
    if type(known) is not type(distribution) or {**known._updated_ctor_param(), "seed": None} != {**parameters, "seed": None}:
        raise NotImplementedError(f"{distribution.name} is no distribution of scipy.stats")
    return "named", distribution.name, generator


def _decode_distribution(value: Any) -> Any:
    import numpy as np

    need(type(value) is tuple and len(value) == 3 and type(value[0]) is str, "a distribution is a kind, its parts and a generator")
    kind, parts, generator = value
    need(generator is None or type(generator) in (np.random.RandomState, np.random.Generator), "a generator that is none")
    if kind in ("itself", "named"):
        known = _named(parts)
        if kind == "itself":
            need(generator is None, "the distribution itself takes no generator")
            return known
        made = type(known)(**known._updated_ctor_param())
    elif kind == "histogram":
        need(type(parts) is tuple and len(parts) == 3 and type(parts[0]) is tuple and len(parts[0]) == 2 and parts[1] in (None, True, False), "a histogram is counts, edges and whether it is a density")
        for part in parts[0]:
            _check_numbers(part)
        need(type(parts[2]) in (str, type(None)), "the name of a histogram")
        made = _stats().rv_histogram(parts[0], density=parts[1], name=parts[2])
    else:
        need(kind == "sample" and type(parts) is tuple and len(parts) == 2 and type(parts[0]) is tuple and len(parts[0]) == 2, "a sample is values and their probabilities")
        for part in parts[0]:
            _check_numbers(part)
        need(type(parts[1]) is dict and set(parts[1]) == set(_SAMPLE_PARTS), "the parts of a sample")
        need(parts[1]["shapes"] is None and all(type(part) in (str, int, float, type(None)) for part in parts[1].values()), "a sample with shapes")
        made = class_of("scipy.stats._distn_infrastructure", "rv_sample")(values=parts[0], **parts[1])
    if generator is not None:
        made._random_state = generator
    return made


def _named(name: Any) -> Any:
    stats = _stats()
    need(type(name) is str and name.isidentifier(), "the name of a distribution")
    known = getattr(stats, name, None)
    need(isinstance(known, (stats.rv_continuous, stats.rv_discrete)), f"{name} is no distribution of scipy.stats")
    return known


def _check_numbers(value: Any) -> None:
    """A number, an array, or lists of numbers: what makes an array of it comes to an end."""
    import numpy as np

    todo = [value]
    while todo:
        part = todo.pop()
        if type(part) in (list, tuple):
            charge(len(part))
            todo.extend(part)
        elif type(part) is np.ndarray:
            need(part.dtype.kind in "biufc", f"parameters of {part.dtype}")
            in_memory(part, "a parameter")
        else:
            need(part is None or isinstance(part, (bool, int, float, complex, np.number, np.bool_)), f"a parameter is a {type(part).__qualname__}")


# Classes of the distributions, by module.
_CLASSES = {
    "scipy.stats._continuous_distns":
        "alpha anglit arcsine argus beta betaprime bradford burr burr12 cauchy chi chi2 cosine crystalball dgamma dpareto_lognorm dweibull erlang expon exponnorm exponpow exponweib f fatiguelife fisk "
        "foldcauchy foldnorm gamma gausshyper genexpon genextreme gengamma genhalflogistic genhyperbolic geninvgauss genlogistic gennorm genpareto gibrat gompertz gumbel_l gumbel_r halfcauchy "
        "halfgennorm halflogistic halfnorm hypsecant invgamma invgauss invweibull irwinhall jf_skew_t johnsonsb johnsonsu kappa3 kappa4 ksone kstwo kstwobign landau laplace laplace_asymmetric levy "
        "levy_l loggamma logistic loglaplace lognorm lomax maxwell mielke moyal nakagami ncf nct ncx2 norm norminvgauss pareto pearson3 powerlaw powerlognorm powernorm rayleigh rdist recipinvgauss "
        "reciprocal rel_breitwigner rice semicircular skewcauchy skewnorm studentized_range t trapezoid triang truncexpon truncnorm truncpareto truncweibull_min tukeylambda uniform vonmises wald "
        "weibull_max weibull_min wrapcauchy",
    "scipy.stats._discrete_distns":
        "bernoulli betabinom betanbinom binom boltzmann dlaplace geom hypergeom logser nbinom nchypergeom_fisher nchypergeom_wallenius nhypergeom planck poisson poisson_binom randint skellam yulesimon "
        "zipf zipfian",
    "scipy.stats._levy_stable": "levy_stable",
}  # fmt: skip


def _encode_frozen(frozen: Any) -> tuple[Any, ...]:
    if set(frozen.__dict__) - {"args", "kwds", "dist", "a", "b"}:
        raise NotImplementedError("a frozen distribution with attributes of its own")
    kind, parts, generator = _encode_distribution(frozen.dist)
    for parameter in (*frozen.args, *frozen.kwds.values()):
        try:
            _check_numbers(parameter)
        except ValueError as error:
            raise NotImplementedError(str(error)) from None
    if kind == "named" and generator is None:
        return parts, frozen.args, frozen.kwds
    return (kind, parts, generator), frozen.args, frozen.kwds


def _decode_frozen(value: Any) -> Any:
    need(type(value) is tuple and len(value) == 3, "not (distribution, args, keywords)")
    what, args, kwds = value
    need(type(args) is tuple and type(kwds) is dict, "not (distribution, args, keywords)")
    for parameter in (*args, *kwds.values()):
        _check_numbers(parameter)
    if type(what) is str:
        return _named(what)(*args, **kwds)
    distribution = _decode_distribution(what)
    frozen = distribution(*args, **kwds)
    frozen.dist._random_state = distribution._random_state
    return frozen


register_named(
    [f"scipy.stats._distn_infrastructure:rv_{kind}_frozen" for kind in ("continuous", "discrete")], "scipy.frozen", _encode_frozen, _decode_frozen
)
register_named(
    [f"{module}:{name}_gen" for module, names in _CLASSES.items() for name in names.split()], "scipy.distribution", _encode_distribution, _decode_distribution
)
register_named(["scipy.stats._continuous_distns:rv_histogram", "scipy.stats._distn_infrastructure:rv_sample"], "scipy.distribution", _encode_distribution, _decode_distribution)


_MULTIVARIATE = (
    "dirichlet dirichlet_multinomial invwishart matrix_normal multinomial multivariate_hypergeom multivariate_normal multivariate_t normal_inverse_gamma ortho_group random_correlation random_table "
    "special_ortho_group uniform_direction unitary_group vonmises_fisher wishart"
)


def _encode_multivariate(distribution: Any) -> tuple[Any, ...]:
    import numpy as np

    name = type(distribution).__name__.removesuffix("_gen")
    generator = distribution._random_state
    return name, getattr(_stats(), name, None) is distribution, None if generator is np.random.mtrand._rand else generator


def _decode_multivariate(value: Any) -> Any:
    import numpy as np

    need(type(value) is tuple and len(value) == 3, "a distribution is a name, whether it is itself, and a generator")
    name, itself, generator = value
    need(type(name) is str and name in _MULTIVARIATE.split(), "the name of a distribution")
    need(generator is None or type(generator) in (np.random.RandomState, np.random.Generator), "a generator that is none")
    known = getattr(_stats(), name)
    if itself is True:
        need(generator is None, "the distribution itself takes no generator")
        return known
    return type(known)(generator)


register_named([f"scipy.stats._multivariate:{name}_gen" for name in _MULTIVARIATE.split()], "scipy.multivariate", _encode_multivariate, _decode_multivariate)


def _encode_ttest(result: Any) -> tuple[Any, ...]:
    state = dict(result.__dict__)
    state.pop("_xp", None)  # a module, of arrays of another library where it is not NumPy's
    return result.statistic, result.pvalue, result.df, state


def _decode_ttest(value: Any) -> Any:
    need(type(value) is tuple and len(value) == 4 and type(value[3]) is dict, "a result of a t-test is a statistic, a probability, degrees of freedom and more")
    for part in value[:3]:
        _check_numbers(part)
    cls = class_of("scipy.stats._stats_py", "TtestResult")
    result = cls.__new__(cls, *value[:2], df=value[2])
    result.__dict__.update(value[3])
    if "_statistic_np" in value[3]:  # a version that asks for the arrays' module
        result.__dict__["_xp"] = class_of("scipy._lib._array_api", "array_namespace")(*value[:2])
    return result


register_named(["scipy.stats._stats_py:TtestResult"], "scipy.TtestResult", _encode_ttest, _decode_ttest)


# ── Densities ────────────────────────────────────────────────────────────────────────────────────────────────

_FACTORS = ("scotts_factor", "silverman_factor")


def _encode_density(density: Any) -> dict[str, Any]:
    state = dict(density.__dict__)
    factor = state.get("covariance_factor")
    if factor is not None:
        name = getattr(factor, "__name__", "")
        if name not in _FACTORS or getattr(factor, "__self__", None) is not density:
            raise NotImplementedError("a density whose bandwidth is a function")
        state["covariance_factor"] = name
    return state


def _decode_density(state: Any) -> Any:
    import numpy as np

    same_parts(state, ("dataset", "d", "n", "_weights", "factor", "covariance", "cho_cov"), "a density")
    dataset = state["dataset"]
    need(type(dataset) is np.ndarray and dataset.ndim == 2 and dataset.dtype.kind in "iuf" and (state["d"], state["n"]) == dataset.shape, "points of a density")
    for part in ("_data_covariance", "_data_cho_cov", "covariance", "cho_cov", "_data_inv_cov", "inv_cov"):
        if part in state:
            need(type(state[part]) is np.ndarray and state[part].shape == (state["d"],) * 2 and state[part].dtype.kind == "f", f"{part} of a density")
    need(type(state["_weights"]) is np.ndarray and state["_weights"].shape == (state["n"],) and state["_weights"].dtype.kind in "iuf", "weights of a density")
    need(all(isinstance(state[part], (int, float, np.number)) for part in ("factor", "log_det", "_neff", "_norm_factor") if part in state), "a factor of a density")
    cls = class_of("scipy.stats._kde", "gaussian_kde")
    density = cls.__new__(cls)
    density.__dict__.update(state)
    if "covariance_factor" in state:
        need(type(state["covariance_factor"]) is str and state["covariance_factor"] in _FACTORS, "the bandwidth of a density")
        density.covariance_factor = getattr(density, state["covariance_factor"])
    return density


register_named(["scipy.stats._kde:gaussian_kde"], "scipy.gaussian_kde", _encode_density, _decode_density)


# ── Clusters ─────────────────────────────────────────────────────────────────────────────────────────────────


def _check_cluster(state: dict[str, Any]) -> None:
    same_parts(state, ("id", "left", "right", "dist", "count"), "a cluster")
    cls = class_of("scipy.cluster.hierarchy", "ClusterNode")
    parts = [state[part] for part in ("left", "right") if state[part] is not None]
    need(all(type(part) is cls for part in parts), "a cluster of something else than clusters")
    integer(int(state["count"]), "the size of a cluster", 0, (1 << 62))
    need(not parts or state["count"] == sum(part.count for part in parts), "a cluster of another size than its parts")


def _check_disjoint(state: dict[str, Any]) -> None:
    parts = ("_sizes", "_parents", "_nbrs", "_indices")
    same_parts(state, (*parts, "n_subsets"), "disjoint sets")
    need(all(type(state[part]) is dict and state[part].keys() == state["_indices"].keys() for part in parts), "disjoint sets of other elements")
    parents, neighbours = state["_parents"], state["_nbrs"]
    # Each chain of parents and each round of neighbours comes to an end.
    need(len(set(map(id, neighbours.values()))) == len(neighbours) and neighbours.keys() == set(neighbours.values()), "neighbours that go round otherwise")
    settled: set[Any] = set()
    for element in parents:
        chain: set[Any] = set()
        while element not in settled:
            need(element in parents and element not in chain, "parents that go round")
            chain.add(element)
            if parents[element] == element:
                break
            element = parents[element]
        settled |= chain


def _dict(obj: Any) -> dict[str, Any]:
    return dict(obj.__dict__)


register_named(["scipy.cluster.hierarchy:ClusterNode"], "scipy.ClusterNode", _dict, of_state("scipy.cluster.hierarchy", "ClusterNode", _check_cluster))
register_named(["scipy._lib._disjoint_set:DisjointSet"], "scipy.DisjointSet", _dict, of_state("scipy._lib._disjoint_set", "DisjointSet", _check_disjoint))
