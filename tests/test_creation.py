"""Tensors made from numbers, and random ones: shapes, dtypes, repeatability, and the laws that samples follow."""

import copy
import math
import pickle
from array import array

import numpy as np
import pytest

import minigrad as mg

F32, F64, I64 = np.float32, np.float64, np.int64

MADE = {
    "tensor of floats": (lambda: mg.tensor([[1.0, 2.0], [3.0, 4.0]]), [[1, 2], [3, 4]], F32),
    "tensor of ints": (lambda: mg.tensor([1, 2]), [1, 2], I64),
    "tensor of bools": (lambda: mg.tensor([True, False]), [True, False], np.bool_),
    "tensor of a number": (lambda: mg.tensor(1.5), 1.5, F32),
    "tensor of ints and floats": (lambda: mg.tensor([1, 2.5]), [1, 2.5], F32),
    "tensor of an array": (lambda: mg.tensor(np.array([1.0])), [1], F64),
    "tensor of np.float64": (lambda: mg.tensor(np.float64(2)), 2, F64),
    "tensor of tensors": (lambda: mg.tensor([mg.tensor(1.0), mg.tensor(2.0)]), [1, 2], F32),
    "tensor with a dtype": (lambda: mg.tensor([1, 2], dtype=mg.float64), [1, 2], F64),
    "tensor of nothing": (lambda: mg.tensor([]), [], F32),
    "zeros": (lambda: mg.zeros(2, 3), [[0] * 3] * 2, F32),
    "zeros of a tuple": (lambda: mg.zeros((2, 3)), [[0] * 3] * 2, F32),
    "zeros, 0-d": (lambda: mg.zeros(()), 0, F32),
    "ones": (lambda: mg.ones(2, dtype=mg.int64), [1, 1], I64),
    "full": (lambda: mg.full((2, 1), 7), [[7], [7]], I64),
    "full of floats": (lambda: mg.full((2,), 0.5), [0.5, 0.5], F32),
    "arange": (lambda: mg.arange(4), [0, 1, 2, 3], I64),
    "arange from to": (lambda: mg.arange(1, 4), [1, 2, 3], I64),
    "arange by": (lambda: mg.arange(0, 1, 0.25), [0, 0.25, 0.5, 0.75], F32),
    "arange down": (lambda: mg.arange(3, 0, -1), [3, 2, 1], I64),
    "arange with a dtype": (lambda: mg.arange(3, dtype=mg.float64), [0, 1, 2], F64),
    "frombuffer": (lambda: mg.frombuffer(array("H", [1, 500]), dtype=mg.uint16), [1, 500], np.uint16),
    "frombuffer, a part": (lambda: mg.frombuffer(b"abcde", dtype=mg.uint8, count=2, offset=1), [98, 99], np.uint8),
    "linspace": (lambda: mg.linspace(0, 1, 5), [0, 0.25, 0.5, 0.75, 1], F32),
    "eye": (lambda: mg.eye(2), [[1, 0], [0, 1]], F32),
    "eye of a rectangle": (lambda: mg.eye(2, 3), [[1, 0, 0], [0, 1, 0]], F32),
    "zeros_like": (lambda: mg.zeros_like(mg.tensor([1, 2])), [0, 0], I64),
    "ones_like": (lambda: mg.ones_like(mg.tensor([1, 2]), dtype=mg.float32), [1, 1], F32),
    "full_like": (lambda: mg.full_like(mg.tensor([1.0, 2.0]), 3), [3, 3], F32),
}


@pytest.mark.parametrize("name", MADE)
def test_each_function_makes_the_values_of_its_row(name):
    """Each function makes the values and the dtype of its row."""
    make, values, dtype = MADE[name]
    made = make()
    assert type(made) is mg.Tensor
    assert made.dtype == dtype
    assert made.tolist() == values
    assert not made.requires_grad


def test_what_copies_and_what_shares():
    """``tensor`` copies, also another layout into row-major order; ``from_numpy`` and ``as_tensor`` share."""
    array = np.arange(6.0).reshape(2, 3).T
    for shared in (mg.from_numpy(array), mg.as_tensor(array)):
        assert np.shares_memory(shared.numpy(), array)
    copied = mg.tensor(array)
    assert not np.shares_memory(copied.numpy(), array)
    assert copied.is_contiguous()
    assert copied.tolist() == array.tolist()
    assert mg.as_tensor(copied) is copied
    assert not np.shares_memory(mg.tensor(copied).numpy(), copied.numpy())


def test_frombuffer_shares_and_a_read_only_buffer_stays_read_only():
    """A write to the buffer shows in the tensor; one to a tensor of ``bytes`` is refused."""
    memory = bytearray(8)
    shared = mg.frombuffer(memory, dtype=mg.float32, requires_grad=True)
    memory[4:] = np.float32(2.5).tobytes()
    assert shared.requires_grad
    assert shared.tolist() == [0, 2.5]
    with pytest.raises((RuntimeError, ValueError), match="read-only"):
        mg.frombuffer(bytes(4), dtype=mg.int32).add_(1)


BUFFER_CALLS = [
    {"count": count, "offset": offset} for count in (-2, -1, 0, 1, 2, 3) for offset in (-1, 0, 2, 4, 7, 8, 9)
]


@pytest.mark.parametrize("length", [0, 1, 8, 9])
def test_frombuffer_takes_and_refuses_what_pytorch_does(torch, length):
    """Every count and offset gives PyTorch's elements, or an error where PyTorch has one."""
    for options in BUFFER_CALLS:
        memory = bytearray(range(length))
        try:
            expected = torch.frombuffer(memory, dtype=torch.int32, **options).tolist()
        except ValueError:
            with pytest.raises(ValueError, match=r"frombuffer\(\) (can't|needs)"):
                mg.frombuffer(memory, dtype=mg.int32, **options)
        else:
            assert mg.frombuffer(memory, dtype=mg.int32, **options).tolist() == expected, options


ERRORS = {
    "an incomplete buffer": (lambda: mg.frombuffer(b"abc", dtype=mg.uint16), ValueError, "3 bytes are left"),
    "too small a buffer": (lambda: mg.frombuffer(b"ab", dtype=mg.int8, count=3), ValueError, "3 elements"),
    "strings": (lambda: mg.tensor("abc"), TypeError, "floats, integers or booleans"),
    "complex numbers": (lambda: mg.tensor(1j), TypeError, "complex128"),
    "None": (lambda: mg.tensor(None), RuntimeError, "from None"),
    "a list to from_numpy": (lambda: mg.from_numpy([1]), TypeError, "expects an ndarray, not list"),
    "ragged lists": (lambda: mg.tensor([[1, 2], [3]]), ValueError, "inhomogeneous"),
    "a device": (lambda: mg.zeros(2, device="cuda"), RuntimeError, "no device 'cuda'"),
    "a size between integers": (lambda: mg.zeros(2.5), TypeError, "float"),
    "a shape between integers": (lambda: mg.zeros(6).reshape(2.0, 3.0), TypeError, "float"),
    "a range of no step": (lambda: mg.arange(0, 3, 0), RuntimeError, "step other than 0"),
    "a complex range": (lambda: mg.arange(3, dtype=complex), TypeError, "complex128"),
    "complex random numbers": (lambda: mg.randint(3, (2,), dtype=complex), TypeError, "complex128"),
    "a negative deviation": (lambda: mg.normal(0.0, -1.0, (2,)), RuntimeError, "at least 0, not -1"),
    "a chance above 1": (lambda: mg.bernoulli(mg.tensor([0.5, 1.5])), RuntimeError, "0 and 1, not 1.5"),
    "a chance of NaN": (lambda: mg.bernoulli(mg.tensor([math.nan])), RuntimeError, "0 and 1, not nan"),
    "data that are a list": (
        lambda: setattr(mg.zeros(2), "data", [1.0, 2.0]),
        TypeError,
        "needs a tensor, not list",
    ),
    "sizes that don't fit": (
        lambda: mg.zeros(3).unflatten(0, (2, 2)),
        RuntimeError,
        r"size 3 apart into \(2, 2\)",
    ),
    "shapes that don't fit": (lambda: mg.allclose(mg.zeros(2), mg.zeros(3)), RuntimeError, r"\(2,\) \(3,\)"),
    "random ints": (lambda: mg.rand(2, dtype=mg.int64), RuntimeError, "floating dtype, not int64"),
    "an empty range": (lambda: mg.randint(3, 3, (2,)), ValueError, "low < high, not 3 and 3"),
    "a strange state": (lambda: mg.set_rng_state(mg.zeros(3)), ValueError, "get_state"),
    "negative weights": (lambda: mg.multinomial(mg.tensor([1.0, -1.0]), 1), RuntimeError, "0, not -1"),
    "weights of 0": (lambda: mg.multinomial(mg.zeros(3), 1), RuntimeError, "not all 0.*sums to 0"),
    "NaN as a weight": (lambda: mg.multinomial(mg.tensor([1.0, math.nan]), 1), RuntimeError, "finite.*not nan"),
    "no samples": (lambda: mg.multinomial(mg.ones(3), 0), RuntimeError, "num_samples > 0"),
    "more than there are": (lambda: mg.multinomial(mg.tensor([1.0, 1.0, 0.0]), 3), RuntimeError, "3 different"),
    "three dimensions": (lambda: mg.multinomial(mg.ones(2, 2, 2), 1), RuntimeError, r"\(2, 2, 2\)"),
    "a pickle": (lambda: pickle.dumps(mg.zeros(1)), TypeError, "minigrad.save"),
    "a copy of an interior tensor": (
        lambda: copy.deepcopy(mg.ones(1, requires_grad=True) * 2),
        RuntimeError,
        "only leaf tensors",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_each_error_names_the_value(name):
    """Each says what was wrong, with the offending value."""
    make, error, message = ERRORS[name]
    with pytest.raises(error, match=message):
        make()


REPRESENTATIONS = {
    "tensor(1.5)": lambda: mg.tensor(1.5),
    "tensor([1, 2])": lambda: mg.tensor([1, 2]),
    "tensor([ True, False])": lambda: mg.tensor([True, False]),
    "tensor([1.], dtype=float64)": lambda: mg.tensor([1.0], dtype=mg.float64),
    "tensor([1.], requires_grad=True)": lambda: mg.tensor([1.0], requires_grad=True),
    "tensor([2.], grad_fn=<MulBackward0>)": lambda: mg.tensor([1.0], requires_grad=True) * 2,
    "tensor([], dtype=float64)": lambda: mg.tensor([], dtype=mg.float64),
}


@pytest.mark.parametrize("text", REPRESENTATIONS)
def test_a_tensor_shows_what_it_is(text):
    """A tensor shows its values, a dtype that is not the default, and whether and how it was computed."""
    assert repr(REPRESENTATIONS[text]()) == text


def test_repr_of_a_matrix_is_aligned():
    """Rows stand below each other, as in PyTorch."""
    assert repr(mg.tensor([[1, 2], [3, 4]])) == "tensor([[1, 2],\n        [3, 4]])"


def test_conversions():
    """Numbers and lists come out as Python's; what has no meaning is refused."""
    assert isinstance(mg.tensor(1.5).item(), float)
    assert isinstance(mg.tensor(2).item(), int)
    assert (float(mg.tensor([1.5])), int(mg.tensor(2.7)), [10, 20][mg.tensor(1)]) == (1.5, 2, 20)
    assert f"{mg.tensor(1.23456):.2f}" == "1.23"
    assert len(mg.zeros(3, 2)) == 3
    assert [row.tolist() for row in mg.tensor([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]
    assert bool(mg.tensor([0.0])) is False
    for refused in (lambda: bool(mg.ones(2)), lambda: mg.ones(2).item()):
        with pytest.raises(RuntimeError, match=r"\(2,\)"):
            refused()
    for refused in (lambda: len(mg.tensor(1)), lambda: list(mg.tensor(1)), lambda: [1, 2][mg.tensor(1.0)]):
        with pytest.raises(TypeError):
            refused()
    with pytest.raises(RuntimeError, match=r"x\.detach\(\)\.numpy\(\)"):
        mg.ones(1, requires_grad=True).numpy()


@pytest.mark.parametrize("name", ["zeros", "ones", "empty", "full", "rand", "randn"])
def test_like_another_in_shape_and_dtype_unless_told(name):
    make, fill = getattr(mg, f"{name}_like"), (3.0,) * (name == "full")
    x = mg.ones(2, 3, dtype=mg.float64)
    same, other = make(x, *fill), make(x, *fill, dtype=mg.float32, requires_grad=True)
    assert (same.shape, same.dtype, same.requires_grad) == ((2, 3), F64, False)
    assert (other.shape, other.dtype, other.requires_grad) == ((2, 3), np.float32, True)
    with pytest.raises(RuntimeError, match="floating"):
        make(x, *fill, dtype=mg.int64, requires_grad=True)


def test_places_in_triangles():
    for mine, theirs in ((mg.tril_indices, np.tril_indices), (mg.triu_indices, np.triu_indices)):
        assert mine(3, 4, 1).tolist() == [indices.tolist() for indices in theirs(3, 1, 4)]


def test_the_shape_and_the_memory_of_another():
    """What PyTorch has for that: a view or a copy in another's shape, and where the elements are."""
    x, other = mg.arange(6), mg.zeros(2, 3)
    for shaped in (x.view_as(other), x.reshape_as(other)):
        assert shaped.tolist() == [[0, 1, 2], [3, 4, 5]]
        assert shaped.data_ptr() == x.data_ptr()
    assert x[2:].data_ptr() - x.data_ptr() == 2 * x.element_size() == 16
    with pytest.raises(RuntimeError, match="without copying"):
        other.T.view_as(x)
    assert other.T.reshape_as(x).shape == (6,)
    assert other.nelement() == other.numel() == 6
    new = other.new_empty(4, dtype=mg.int32)
    assert (new.shape, new.dtype) == ((4,), np.int32)


# --- random numbers ---------------------------------------------------------------------------------


DRAWS = {
    "rand": lambda: mg.rand(3, 2),
    "randn": lambda: mg.randn(3, 2),
    "normal": lambda: mg.normal(2.0, 3.0, (4,)),
    "randint": lambda: mg.randint(10, (5,)),
    "randperm": lambda: mg.randperm(10),
    "bernoulli": lambda: mg.bernoulli(mg.full((20,), 0.5)),
    "rand_like": lambda: mg.rand_like(mg.zeros(4)),
    "randn_like": lambda: mg.randn_like(mg.zeros(4)),
    "multinomial": lambda: mg.multinomial(mg.ones(10), 5),
    "multinomial, replaced": lambda: mg.multinomial(mg.ones(10), 5, replacement=True),
}


@pytest.mark.parametrize("name", DRAWS)
def test_seed_and_state_repeat(name):
    """A seed, or a saved state, gives the same numbers again; going on gives others."""
    draw = DRAWS[name]
    mg.manual_seed(7)
    first, state, second = draw(), mg.get_rng_state(), draw()
    assert not mg.equal(first, second)
    mg.manual_seed(7)
    assert mg.equal(draw(), first)
    mg.set_rng_state(state)
    assert mg.equal(draw(), second)


def test_generators_are_apart():
    """A generator of one's own neither changes the global one nor depends on it."""
    own = mg.Generator().manual_seed(3)
    before = mg.get_rng_state()
    first = mg.rand(4, generator=own)
    assert mg.equal(mg.get_rng_state(), before)
    mg.rand(1)
    assert mg.equal(mg.rand(4, generator=mg.Generator().manual_seed(3)), first)


def test_shapes_and_dtypes_of_random_tensors():
    """Shapes as arguments or a tuple; the default dtype or a given one; integers int64."""
    assert mg.rand(2, 3).shape == mg.rand((2, 3)).shape == (2, 3)
    assert mg.rand().shape == ()
    assert mg.rand(2).dtype == mg.randn(2).dtype == F32
    assert mg.randn(2, dtype=mg.float64).dtype == F64
    assert mg.rand(2, dtype=mg.float16).dtype == np.float16
    assert mg.randint(5, (2,)).dtype == mg.randperm(3).dtype == I64
    assert set(mg.randint(-2, 3, (200,)).tolist()) == {-2, -1, 0, 1, 2}
    assert mg.randn(2, requires_grad=True).requires_grad


def chi_square(counts, probabilities):
    """Return Pearson's Σ (O − E)² / E: of V − 1 degrees of freedom, so V − 1 on average."""
    expected = np.asarray(probabilities) * np.sum(counts)
    return float(np.sum((counts - expected) ** 2 / expected))


# χ² exceeds its mean of k by 6 standard deviations √(2k) about once in 10⁷ seeds; this seed is fixed.
def bound(categories):
    """Return k + 6 √(2k) for k = categories − 1."""
    k = categories - 1
    return k + 6 * math.sqrt(2 * k)


def test_uniform_and_normal_numbers():
    """Equal shares in ten equal parts of [0, 1); of a normal law, of its deciles (by Φ = (1 + erf)/2)."""
    n = 20_000
    uniform = mg.rand(n, dtype=mg.float64).numpy()
    assert (uniform >= 0).all()
    assert (uniform < 1).all()
    normal = mg.randn(n, dtype=mg.float64).numpy()
    phi = (1 + mg.erf(mg.from_numpy(normal / math.sqrt(2))).numpy()) / 2
    for sample in (uniform, phi):
        counts = np.bincount((sample * 10).astype(int), minlength=10)
        assert chi_square(counts, np.full(10, 0.1)) < bound(10)


def test_integers_and_permutations():
    """Each integer of the range equally often, the bounds as in PyTorch; a permutation holds each once."""
    counts = np.bincount(mg.randint(2, 7, (10_000,)).numpy() - 2, minlength=5)
    assert len(counts) == 5
    assert chi_square(counts, np.full(5, 0.2)) < bound(5)
    assert sorted(mg.randperm(50).tolist()) == list(range(50))
    firsts = np.bincount([mg.randperm(4)[0].item() for _ in range(2000)], minlength=4)
    assert chi_square(firsts, np.full(4, 0.25)) < bound(4)


def test_bernoulli():
    """1 with probability p, in p's dtype; never at p = 0, always at p = 1."""
    p = mg.tensor([0.0, 0.25, 1.0], dtype=mg.float64).expand(20_000, 3)
    drawn = mg.bernoulli(p)
    assert drawn.dtype == F64
    zeros, some, ones = drawn.numpy().mean(0)
    assert (zeros, ones) == (0, 1)
    assert abs(some - 0.25) < 6 * math.sqrt(0.25 * 0.75 / 20_000)


WEIGHTS = [1.0, 0.0, 3.0, 6.0]


def test_multinomial_with_replacement():
    """Frequencies are proportional to the weights, which need not sum to 1; a weight of 0 is never drawn."""
    drawn = mg.multinomial(mg.tensor(WEIGHTS), 20_000, replacement=True)
    assert drawn.dtype == I64
    counts = np.bincount(drawn.numpy(), minlength=4)
    assert counts[1] == 0
    assert chi_square(counts[[0, 2, 3]], [0.1, 0.3, 0.6]) < bound(3)


@pytest.mark.parametrize("replacement", [True, False])
def test_multinomial_rows(replacement):
    """Each row of a matrix is a distribution of its own."""
    drawn = mg.multinomial(mg.tensor([[0.0, 1.0, 0.0], [5.0, 0.0, 0.0]]), 1, replacement)
    assert drawn.tolist() == [[1], [0]]
    assert mg.multinomial(mg.ones(5, 3), 2, replacement).shape == (5, 2)


def test_multinomial_without_replacement():
    """Two draws without replacement follow the law of drawing, removing, drawing again:

    P(i, then j) = pᵢ · pⱼ / (1 − pᵢ).
    """
    n = 20_000
    drawn = mg.multinomial(mg.tensor([WEIGHTS]).expand(n, 4), 2).numpy()
    p = np.array(WEIGHTS) / sum(WEIGHTS)
    pairs = [(i, j) for i in (0, 2, 3) for j in (0, 2, 3) if i != j]
    counts = np.array([np.sum((drawn == pair).all(1)) for pair in pairs])
    assert counts.sum() == n  # no index twice, and never the one of weight 0
    assert chi_square(counts, [p[i] * p[j] / (1 - p[i]) for i, j in pairs]) < bound(6)
    assert sorted(mg.multinomial(mg.ones(6), 6).tolist()) == list(range(6))


def test_samples_carry_no_gradient():
    """Drawing is not differentiable: weights that want a gradient give plain integers."""
    weights = mg.ones(4, requires_grad=True)
    assert not mg.multinomial(weights, 2).requires_grad
    assert not mg.bernoulli(weights * 0.5).requires_grad


def test_drawn_in_place():
    """uniform_ and normal_ overwrite every element, from a seed, in the tensor's dtype."""
    x = mg.zeros(2000, dtype=mg.float64)
    assert x.uniform_(2, 3) is x
    assert 2 <= x.min().item() < x.max().item() < 3
    first = mg.zeros(2000).normal_(1, 2, generator=mg.Generator().manual_seed(0))
    assert mg.equal(first, mg.zeros(2000).normal_(1, 2, generator=mg.Generator().manual_seed(0)))
    assert mg.nn.functional.dropout(x, 0.5, inplace=True) is x
    assert 800 < (x == 0).sum().item() < 1200
    assert abs(first.mean().item() - 1) < 0.3
    assert abs(first.std().item() - 2) < 0.3
