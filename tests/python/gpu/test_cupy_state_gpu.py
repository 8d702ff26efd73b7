"""CuPy's generators go on where they stood; kernels that were used go without what was compiled; handles stay."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

import transload

BOTH = pytest.mark.parametrize("families", [("cuda", "host"), ("host",)], ids=["cuda", "host"])
KINDS = ["XORWOW", "MRG32k3a", "Philox4x3210"]

DRAWS = {
    "random": lambda g: g.random(100_003),
    "float": lambda g: g.random(1001, dtype="f4"),
    "normal": lambda g: g.standard_normal(1001),
    "integers": lambda g: g.integers(0, 1 << 40, 1001),
    "gamma": lambda g: g.standard_gamma(2.5, 1001),
    "poisson": lambda g: g.poisson(4.0, 1001),
    "binomial": lambda g: g.binomial(100, 0.3, 1001),
}


def generator(cp, kind, **kwargs):
    return cp.random.Generator(getattr(cp.random, kind)(1234, **kwargs))


def trip(obj, families):
    return transload.deserialize(transload.serialize([obj], families))[0]


@BOTH
@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("kind", KINDS)
def test_generators_go_on_where_they_stood(cp, families, kind, draw):
    sent, beside = generator(cp, kind), generator(cp, kind)
    for g in (sent, beside):
        for name in DRAWS:
            DRAWS[name](g)  # an odd state: half of a pair of normals, n and p of binomials
    got = trip(sent, families)
    assert type(got.bit_generator) is type(sent.bit_generator) and got is not sent
    expected = DRAWS[draw](beside)
    assert bool((DRAWS[draw](got) == expected).all())
    assert bool((DRAWS[draw](sent) == expected).all())  # drawing from the one left the other alone


@BOTH
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_generators_of_a_size_of_their_own(cp, families, size):
    sent = generator(cp, "Philox4x3210", size=size)
    sent.random(min(size, 7))
    got = trip(sent, families)
    n = min(size, 500)  # of more than it has states CuPy leaves some unwritten
    assert bool((got.random(n) == sent.random(n)).all())


def test_one_message_gives_generators_that_do_not_share_their_state(cp):
    sent = generator(cp, "XORWOW")
    message = transload.serialize(sent, ("cuda", "host"))
    first, second = transload.deserialize(message), transload.deserialize(message)
    sent.random(1000)
    a = first.random(1000)
    assert bool((second.random(1000) == a).all()) and not bool((first.random(1000) == a).all())


@BOTH
def test_generators_that_share_bits_share_them_on_arrival(cp, families):
    first = generator(cp, "XORWOW")
    second = cp.random.Generator(first.bit_generator)
    a, b = transload.deserialize(transload.serialize([first, second], families))
    assert a.bit_generator is b.bit_generator
    seeds = a.bit_generator._seed_seq
    assert seeds.entropy == 1234 and type(seeds) is np.random.SeedSequence


def test_generators_go_on_in_another_process(cp, tmp_path):
    sent = cp.random.default_rng(99)
    sent.standard_normal(1001)
    transload.save(tmp_path / "g", sent)
    program = "import sys, transload; g = transload.load(sys.argv[1]); print(g.random(1000).sum().item().hex())"
    out = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "g"], capture_output=True, text=True, check=True
    ).stdout
    assert out.strip() == sent.random(1000).sum().item().hex()


def test_generators_need_a_gpu(cp):
    message = transload.serialize([cp.random.default_rng(1)], ("host",))
    with pytest.raises(transload.Unsupported, match=r"obj\[0\].*CuPy's generators need a GPU"):
        transload.deserialize(message, device="host")


def test_random_states_are_refused_and_cupy_cannot_pickle_them(cp):
    state = cp.random.RandomState(1)
    for families in (("cuda", "host", "pickle"), ("host",)):
        with pytest.raises(
            transload.Unsendable, match=r"obj\['s'\]: CuPy's RandomState: cuRAND does not tell where it stands"
        ):
            transload.serialize({"s": state}, families)
    with pytest.raises(TypeError):
        pickle.dumps(state)


HANDLES = {
    "Stream": lambda cp: cp.cuda.Stream(non_blocking=True),
    "Event": lambda cp: cp.cuda.Event(),
    "MemoryPointer": lambda cp: cp.arange(5).data,
    "PooledMemory": lambda cp: cp.arange(5).data.mem,
    "PinnedMemoryPointer": lambda cp: cp.cuda.alloc_pinned_memory(100),
    "MemoryPool": lambda cp: cp.get_default_memory_pool(),
    "Function": lambda cp: used_raw(cp).kernel,
    "Plan1d": lambda cp: cp.cuda.cufft.Plan1d(64, cp.cuda.cufft.CUFFT_Z2Z, 1),
}


@pytest.mark.parametrize("name", HANDLES)
def test_handles_are_refused(cp, name):
    handle = HANDLES[name](cp)
    with pytest.raises(transload.Unsendable, match=rf"^obj\[0\]: CuPy's {name} is a"):
        transload.serialize([handle], ("cuda", "host", "pickle"))


CODE = 'extern "C" __global__ void twice(double* x) { x[threadIdx.x] *= 2; }'


def used_raw(cp):
    kernel = cp.RawKernel(CODE, "twice")
    x = cp.arange(32.0)
    kernel((1,), (32,), (x,))
    assert float(x[31]) == 62
    return kernel


KERNELS = {
    "raw": (used_raw, lambda k, cp: (k((1,), (32,), (x := cp.arange(32.0),)), x)[1]),
    "module": (
        lambda cp: cp.RawModule(code=CODE),
        lambda k, cp: (k.get_function("twice")((1,), (32,), (x := cp.arange(32.0),)), x)[1],
    ),
    "elementwise": (
        lambda cp: cp.ElementwiseKernel("T x", "T y", "y = x * 2", "twice"),
        lambda k, cp: k(cp.arange(32.0)),
    ),
    "reduction": (
        lambda cp: cp.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "total"),
        lambda k, cp: k(cp.arange(32.0)),
    ),
    "ufunc": (lambda cp: cp.sqrt, lambda k, cp: k(cp.arange(32.0))),
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_that_were_used_work_on_arrival(cp, name):
    make, use = KERNELS[name]
    kernel = make(cp)
    expected = use(kernel, cp)
    got = transload.deserialize(
        transload.serialize({"k": kernel}, ("cuda", "host", "pickle")), ("cuda", "host", "pickle")
    )["k"]
    assert type(got) is type(kernel) and (got is kernel) == (name == "ufunc")
    assert bool((use(got, cp) == expected).all()) and bool((use(kernel, cp) == expected).all())


def test_kernels_that_were_used_work_in_another_process(cp, tmp_path):
    kernel = KERNELS["elementwise"][0](cp)
    kernel(cp.arange(5.0))
    transload.save(tmp_path / "k", [kernel, used_raw(cp), cp.sqrt], ("cuda", "host", "pickle"))
    program = (
        "import sys, transload, cupy; e, r, s = transload.load(sys.argv[1], ('cuda', 'host', 'pickle'));"
        "x = cupy.arange(32.0); r((1,), (32,), (x,)); print(e(cupy.arange(5.0)).sum(), x.sum(), s is cupy.sqrt)"
    )
    out = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "k"], capture_output=True, text=True, check=True
    ).stdout
    assert out.split() == ["20.0", "992.0", "True"]
