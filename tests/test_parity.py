"""The same call on both engines: every operation against PyTorch, forward and backward.

A case is a function of a namespace (``mg`` or ``torch``) and arrays made into tensors of it.  It runs over dtypes,
shapes and memory layouts; results must agree in value, dtype and shape, and gradients (of cotangents of both
signs) too: float64 to 10⁻¹², float32 to 10⁻⁵ of the largest entry.  Where both refuse, the errors must be of
one type.  What differs on purpose stands in ``DIFFERENCES``, and each row of it must really differ.
"""

import itertools
import math

import numpy as np
import pytest
from parity import (
    DIMS,
    EVERY,
    FLOATS,
    LAYOUTS,
    MATRICES,
    NUMBERS,
    PAIRS,
    SHAPES,
    SOME,
    assert_parity,
    lay_out,
    module,
    numbers,
    results,
)

# --- operations of one tensor -----------------------------------------------------------------------


def one(*names, dtypes=EVERY, kind="any", shapes=SHAPES, **calls):
    """Return the cases of functions named alike that take one tensor, and of the calls given by keyword."""
    cases = {name: (lambda e, x, name=name: getattr(e, name)(x)) for name in names}
    return {name: (call, dtypes, kind, shapes) for name, call in {**cases, **calls}.items()}


def over_dims(call):
    """Return a call over every choice of dim and keepdim for which ``call(e, x, dim, keepdim)`` is asked."""

    def every(e, x):
        dims = [0, -1] if x.ndim else [0]
        return [y for dim in dims for keepdim in (False, True) for y in results(call(e, x, dim, keepdim))]

    return every


ONE = {
    **one("exp", "sin", "cos", "tan", "tanh", "sinh", "cosh", "atan", "sigmoid", "expm1", "exp2", "erf"),
    **one("log", "log2", "log10", "log1p", "sqrt", "rsqrt", kind="positive"),
    **one("reciprocal", kind="nonzero"),
    **one("asin", "acos", kind="unit", dtypes=(*FLOATS, "bool")),
    **one("abs", dtypes=NUMBERS, kind="nonzero"),
    **one("sign", "square", "isfinite", "isinf", "isnan", "logical_not", "count_nonzero", kind="nonzero"),
    **one("neg", "floor", "ceil", "trunc", "round", "nan_to_num", dtypes=NUMBERS, kind="nonzero"),
    **one("frac", dtypes=FLOATS, kind="nonzero"),
    **one("relu", dtypes=NUMBERS, kind="nonzero"),
    **one("clone", "ravel", "flatten", "numel", "is_floating_point", "nonzero"),
    **one("bitwise_not", dtypes=("int64", "bool")),
    **one("sum", "prod", "all", "any"),
    **one("mean", dtypes=FLOATS),
    **one("var", "std", dtypes=FLOATS, shapes=SHAPES),
    **one("max", "min", "amax", "amin", dtypes=EVERY, shapes=SOME),
    **one("argmax", "argmin", dtypes=NUMBERS, shapes=[(1,), (4,)]),
    **one("norm", dtypes=FLOATS),
    **one("tril", "triu", dtypes=EVERY, shapes=MATRICES),
    **one("trace", dtypes=NUMBERS, shapes=[(2, 3), (3, 0), (1, 1)]),
    **one("diag", dtypes=EVERY, shapes=[(4,), (2, 3), (0,), (1,)]),
    **one(
        shapes=[(2, 3), (3, 0), (2, 1, 3), (2, 3, 1, 2), (3, 3)],
        diagonal=lambda e, x: [x.diagonal(), x.diagonal(1), e.diagonal(x, -1, -2, -1)],
        diagonal_of_dims=lambda e, x: x.diagonal(offset=1, dim1=-1, dim2=0),
        transpose=lambda e, x: [x.transpose(0, 1), e.transpose(x, -1, 0), x.mT, e.swapaxes(x, 0, -1)],
        movedim=lambda e, x: [e.movedim(x, 0, -1), x.movedim((0, 1), (1, 0)), e.moveaxis(x, -1, 0)],
        permute=lambda e, x: [x.permute(*range(x.ndim)[::-1]), e.permute(x, tuple(range(x.ndim)))],
        flip=lambda e, x: [x.flip(0), x.flip(0, 1), e.flip(x, (-1,))],
        roll=lambda e, x: [x.roll(1, 0), x.roll((1, 2), (0, 1)), e.roll(x, -1)],
        unbind=lambda e, x: [*x.unbind(0), *e.unbind(x, 1)],
        tril_of=lambda e, x: [x.tril(1), x.triu(-1), e.tril(x, diagonal=-1)],
        narrow=lambda e, x: [x.narrow(0, 1, 1), e.narrow(x, 0, 0, 2), x.narrow(0, -1, 1)],
        select=lambda e, x: [x.select(0, 1), e.select(x, 0, -1)],
        index=lambda e, x: [x[1], x[..., None], x[:, 0:2], x[None], x[1:], x[-1, ..., :1]],
        chunk=lambda e, x: [*x.chunk(2, 0), *e.chunk(x, 3, 0)],
        split=lambda e, x: [*x.split(1, 0), *e.split(x, 2), *x.split([1, x.shape[0] - 1], 0)],
        hstack=lambda e, x: [e.hstack([x, x]), e.vstack((x, x))],
        pad=lambda e, x: [module(e).pad(x, (1, 2, 0, 1)), module(e).pad(x, (0, 1, -1, 0), value=1)],
        unflatten=lambda e, x: [x.unflatten(0, (-1, 1)), e.unflatten(x, 0, (1, x.shape[0]))],
        strides=lambda e, x: (
            [x.stride(), x.stride(0), x.transpose(0, 1).contiguous().stride()] if x.numel() else x
        ),
        t=lambda e, x: x.reshape(2, -1).t() if x.numel() % 2 == 0 else x.flatten().t(),
    ),
    **one(
        view=lambda e, x: [x.reshape(-1), e.reshape(x, x.shape), x.contiguous().view(x.shape)] if x.numel() else x,
        squeeze=lambda e, x: [x.squeeze(), e.squeeze(x), x.unsqueeze(0).squeeze(0), x.squeeze(-1)],
        unsqueeze=lambda e, x: [x.unsqueeze(0), e.unsqueeze(x, -1)],
        expand=lambda e, x: [x.expand(2, *x.shape), x.expand_as(x), e.broadcast_to(x, (3, *x.shape))],
        repeat=lambda e, x: [x.repeat(*(2,) * max(x.ndim, 1)), x.repeat(2, *(1,) * x.ndim), x.tile(2)],
        tile=lambda e, x: [e.tile(x, (2, 1)), e.tile(x, (2,))],
        cat=lambda e, x: e.cat([x, x], 0),
        stack=lambda e, x: [e.stack([x, x]), e.stack((x, x), dim=-1)],
        comparisons=lambda e, x: [x == x, x != 1, x < 0.5, x <= 2, x > 0, x >= 1.5],
        casts=lambda e, x: [x.float(), x.double(), x.long(), x.bool(), x.int(), x.to(e.float64), x.type_as(x)],
        to_lists=lambda e, x: x.tolist(),
        repeat_interleave=lambda e, x: [x.repeat_interleave(2), e.repeat_interleave(x, 3)],
        new=lambda e, x: [x.new_zeros(2, 3), x.new_ones((2,)), x.new_full((1,), 1), x.new_tensor([1, 0])],
        like=lambda e, x: [e.zeros_like(x), e.ones_like(x), e.full_like(x, 1)],
        masked_fill=lambda e, x: [x.masked_fill(x > 0, 1), e.masked_fill(x, x == x, 0)],
        masked_select=lambda e, x: [x.masked_select(x > 0), e.masked_select(x, e.tensor(True))],
        where=lambda e, x: [e.where(x > 0, x, 0), e.where(x > 0, x, -x.float()), x.where(x > 0, x)],
        where_alone=lambda e, x: e.where(x > 0),
        isclose=lambda e, x: [e.isclose(x, x), e.allclose(x, x), x.isclose(x), e.equal(x, x)],
        unique=lambda e, x: [
            e.unique(x.detach()),
            *e.unique(x.detach(), return_inverse=True, return_counts=True),
            *x.detach().unique(return_counts=True),
        ],
    ),
    **one(
        shapes=DIMS,
        sum_dim=over_dims(lambda e, x, d, k: e.sum(x, dim=d, keepdim=k)),
        prod_dim=over_dims(lambda e, x, d, k: x.prod(d, keepdim=k)),
        all_dim=over_dims(lambda e, x, d, k: [x.all(d, k), e.any(x, dim=d, keepdim=k)]),
        cumsum=lambda e, x: [x.cumsum(0), e.cumsum(x, dim=-1)],
        cumprod=lambda e, x: [x.cumprod(0), e.cumprod(x, dim=-1)],
        repeat_interleave_dim=lambda e, x: [x.repeat_interleave(2, 0), e.repeat_interleave(x, 2, dim=-1)],
        repeat_interleave_counts=lambda e, x: x.repeat_interleave(e.arange(x.shape[0]), dim=0),
        count_nonzero_dim=lambda e, x: [x.count_nonzero(0), e.count_nonzero(x, dim=-1)],
    ),
    **one(
        dtypes=NUMBERS,
        kind="nonzero",
        clamp=lambda e, x: [x.clamp(-1, 1), e.clamp(x, min=0.5), x.clip(max=2), x.clamp(min=0)],
        powers=lambda e, x: [x**2, x.pow(3), e.pow(x, 2.0), e.pow(2.0, x), x**0, x.square()],
        arithmetic=lambda e, x: [x + 1, 2 - x, x * 2.5, 3 / x, x / 2, -x, abs(x), 1 + x, x - 0.5, +x],
        floor_division=lambda e, x: [x % 3, 7 % x.detach(), x % 2.5, e.remainder(x, 2)],
        rounding=lambda e, x: [
            e.div(x.detach(), 3, rounding_mode="floor"),
            e.div(x.detach(), 3, rounding_mode="trunc"),
            x.detach() // 2,
        ],
        addcmul=lambda e, x: [e.addcmul(x, x, x, value=2), (x * 1).addcmul_(x, x, value=3)],
        names=lambda e, x: [x.less(1), x.greater(0), x.not_equal(1), e.less_equal(x, 2), e.greater_equal(x, 1)],
        lerp=lambda e, x: [e.lerp(x.double(), x.double() * 2, 0.25), x.double().lerp(x.double() + 1, 1.0)],
    ),
    **one(
        dtypes=FLOATS,
        shapes=DIMS,
        mean_dim=over_dims(lambda e, x, d, k: x.mean(d, keepdim=k)),
        softmax=lambda e, x: [x.softmax(0), e.softmax(x, dim=-1), module(e).softmax(x, -1)],
        log_softmax=lambda e, x: [x.log_softmax(0), e.log_softmax(x, dim=-1)],
        logsumexp=over_dims(lambda e, x, d, k: x.logsumexp(d, keepdim=k)),
        norm_dim=over_dims(lambda e, x, d, k: [x.norm(dim=d, keepdim=k), x.norm(1, d, k), x.norm(3, d)]),
    ),
    **one(
        dtypes=FLOATS,
        shapes=[shape for shape in SOME if shape and shape[0] > 1 and shape[-1] > 1],
        var_dim=over_dims(lambda e, x, d, k: [x.var(d, keepdim=k), x.var(d, unbiased=False), x.std(d, keepdim=k)]),
        var_mean=lambda e, x: [
            *e.var_mean(x),
            *e.var_mean(x, dim=0, correction=0),
            *e.std_mean(x, 0, keepdim=True),
        ],
        var_correction=lambda e, x: [e.var(x, dim=0, correction=0), e.std(x, dim=-1, correction=0)],
        normalize=lambda e, x: [module(e).normalize(x, dim=0), module(e).normalize(x, p=1, dim=-1)],
    ),
    **one(
        dtypes=FLOATS,
        shapes=[(5, 4), (4, 3, 5)],
        batch_norm=lambda e, x: module(e).batch_norm(x, None, None, training=True),
        layer_norm=lambda e, x: [
            module(e).layer_norm(x, x.shape[-1:]),
            module(e).layer_norm(x, x.shape[1:], eps=0.1),
        ],
    ),
    **one(
        shapes=[shape for shape in SOME if shape],
        max_dim=over_dims(lambda e, x, d, k: x.max(d, keepdim=k)),
        min_dim=over_dims(lambda e, x, d, k: e.min(x, d, k)),
        extremes_dim=over_dims(lambda e, x, d, k: [x.amax(d, keepdim=k), e.amin(x, d, k)]),
        dtypes=FLOATS,
        arg_dim=over_dims(lambda e, x, d, k: [x.argmax(d, keepdim=k), e.argmin(x, dim=d)]),
        sort=lambda e, x: [*x.sort(), *e.sort(x, dim=0, descending=True), x.argsort(0), e.argsort(x, -1, True)],
        topk=lambda e, x: [*x.topk(1), *e.topk(x, 1, dim=0, largest=False)],
    ),
    **one(
        dtypes=FLOATS,
        kind="nonzero",
        activations=lambda e, x: [
            getattr(module(e), name)(x)
            for name in ("relu", "gelu", "silu", "softplus", "logsigmoid", "leaky_relu", "elu", "tanh", "sigmoid")
        ],
        addcdiv=lambda e, x: [e.addcdiv(x, x, x * x + 1, value=2), (x * 1).addcdiv_(x, x * x + 1)],
        gelu_tanh=lambda e, x: module(e).gelu(x, approximate="tanh"),
        leaky=lambda e, x: module(e).leaky_relu(x, 0.2),
        losses=lambda e, x: [
            module(e).mse_loss(x, x.detach() * 2),
            module(e).l1_loss(x, x.detach() + 3, reduction="sum"),
            module(e).smooth_l1_loss(x, x.detach() * 0.5, reduction="none"),
            module(e).binary_cross_entropy_with_logits(x, (x > 0).to(x.dtype), reduction="none"),
            module(e).kl_div(x, x.detach().abs(), reduction="sum"),
        ],
        in_place=lambda e, x: [
            (x * 1).exp_(),
            (x * 1).tanh_(),
            (x * 1).sigmoid_(),
            (x * 1).relu_(),
            (x * 1).neg_(),
            (x * 1).abs_(),
            (x * 1).pow_(2),
            (x * 1).clamp_(-1, 1),
            (x * 1).add_(x, alpha=2),
            (x * 1).sub_(1),
            (x * 1).mul_(x),
            (x * 1).div_(2),
            (x * 1).masked_fill_(x > 0, 3.0),
            (x * 1).fill_(2.0),
            (x * 1).zero_(),
            (x * 1).copy_(x * 3),
            (x * x).sqrt_(),
        ],
    ),
    **one(
        dtypes=FLOATS,
        kind="positive",
        binary_cross_entropy=lambda e, x: module(e).binary_cross_entropy(x / 3, (x > 1).to(x.dtype)),
    ),
    **one(
        dtypes=("int64",),
        kind="positive",
        one_hot=lambda e, x: [module(e).one_hot(x, 6), module(e).one_hot(x)] if x.numel() else x,
        bincount=lambda e, x: [x.flatten().bincount(), e.bincount(x.flatten(), minlength=7)],
        shifts=lambda e, x: [x << 1, x >> 1, x & 3, x | 4, x ^ 1, ~x],
    ),
}


@pytest.mark.parametrize("name", ONE)
def test_calls_on_one_tensor_agree(name):
    """Each call on a tensor of each dtype, shape and layout."""
    call, dtypes, kind, shapes = ONE[name]
    worked = False
    for dtype, shape in itertools.product(dtypes, shapes):
        array = numbers(np.random.default_rng(len(shape)), shape, dtype, kind)
        for layout in LAYOUTS if (array.size and array.ndim > 1) or dtype == "float64" else LAYOUTS[:1]:
            what = f"{name} of {dtype} {shape} {layout}"
            worked |= assert_parity(call, [lay_out(array, layout)], what)
    assert worked, f"{name} only raised errors"


# --- operations of two ------------------------------------------------------------------------------


def two(*names, dtypes=EVERY, kind="nonzero", pairs=PAIRS, **calls):
    """Return the cases of functions named alike that take two tensors, and of the calls given by keyword."""
    cases = {name: (lambda e, x, y, name=name: getattr(e, name)(x, y)) for name in names}
    return {name: (call, dtypes, kind, pairs) for name, call in {**cases, **calls}.items()}


PRODUCTS = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 2)),
    ((2, 3), (3, 4)),
    ((2, 2, 3), (3, 2)),
    ((2, 1, 2, 3), (3, 3, 2)),
    ((2, 0), (0, 3)),
    ((0, 2), (2, 3)),
]

TWO = {
    **two("add", "mul", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor"),
    **two("sub", "remainder", dtypes=NUMBERS),
    **two("div", "true_divide", "maximum", "minimum", "atan2"),
    **two("bitwise_and", "bitwise_or", "bitwise_xor", dtypes=("int64", "bool")),
    **two("pow", dtypes=NUMBERS, kind="positive"),
    **two(
        operators=lambda e, x, y: [x + y, x * y, x / y, x == y, x > y],
        dtypes=EVERY,
        where=lambda e, x, y: [e.where(x > y, x, y), x.where(y > 0, x)],
        isclose=lambda e, x, y: e.isclose(x, y),
    ),
    **two(
        clamp=lambda e, x, y: [e.clamp(x, min=y), x.clamp(max=y), x.clamp(y, y + 1)],
        max=lambda e, x, y: [e.max(x, y), e.min(x, y), x.max(y)],
        lerp=lambda e, x, y: [e.lerp(x, y, 0.75), x.lerp(y, y)],
        dtypes=FLOATS,
    ),
    **two(
        floor_divide=lambda e, x, y: [x.detach() // y.detach(), e.floor_divide(x.detach(), y.detach())],
        dtypes=NUMBERS,
    ),
    **two("matmul", dtypes=NUMBERS, pairs=PRODUCTS),
    **two("mm", dtypes=NUMBERS, pairs=[((2, 3), (3, 4)), ((2, 0), (0, 3)), ((1, 1), (1, 1))]),
    **two("mv", dtypes=NUMBERS, pairs=[((2, 3), (3,)), ((2, 0), (0,))]),
    **two("dot", dtypes=NUMBERS, pairs=[((3,), (3,)), ((0,), (0,))]),
    **two("outer", dtypes=EVERY, pairs=[((3,), (2,)), ((0,), (2,)), ((1,), (1,))]),
    **two("bmm", dtypes=NUMBERS, pairs=[((2, 2, 3), (2, 3, 2)), ((2, 2, 0), (2, 0, 2))]),
    **two(
        dtypes=EVERY,
        kron=lambda e, x, y: e.kron(x.contiguous(), y.contiguous()),
        pairs=[((2,), (3,)), ((2, 3), (2, 2)), ((2,), (2, 2)), ((), (2,))],
    ),
    **two(
        pairs=[((2, 3), (3, 2)), ((2, 3, 4), (3, 4, 2))],
        dtypes=NUMBERS,
        tensordot=lambda e, x, y: [
            e.tensordot(x, y, x.ndim - 1),
            e.tensordot(x, y, ([1], [0])),
            e.tensordot(x, y, 0),
        ],
        einsum=lambda e, x, y: (
            [e.einsum("ab...,b...c->ac", x, y), e.einsum("ab...,b...c->", x, y)]
            if x.ndim == 2
            else e.einsum("abc,bcd->ad", x, y)
        ),
    ),
    **two(
        pairs=[((2, 3), (3, 2))],
        dtypes=FLOATS,
        addmm=lambda e, x, y: [e.addmm(x[:, :2], x, y), e.addmm(y[0], x, y, beta=0.5, alpha=2)],
        linear=lambda e, x, y: [module(e).linear(x, y.mT), module(e).linear(x, y.mT, y[0])],
    ),
    **two(
        pairs=[((2, 3), (2, 3)), ((4,), (4,)), ((2, 1, 3), (2, 1, 3))],
        joins=lambda e, x, y: [e.cat([x, y]), e.stack([x, y], -1), e.hstack([x, y]), e.vstack([x, y])],
        meshgrid=lambda e, x, y: [
            *e.meshgrid(x.flatten(), y.flatten()[:2], indexing="ij"),
            *e.meshgrid(x.flatten(), y.flatten()[:2], indexing="xy"),
        ],
    ),
    **two(
        pairs=[((3, 4), (2, 2)), ((4, 5), (2, 2))],
        dtypes=NUMBERS,
        scatter_add=lambda e, x, y: e.scatter_add(x, 0, e.tensor([[0, 1], [0, 0]]), y),
        scatter=lambda e, x, y: [
            x.scatter(1, e.tensor([[0, 1], [2, 0]]), y),
            e.scatter(x, 0, e.tensor([[2, 1, 0]]), 5),
        ],
        index_fill=lambda e, x, y: [
            x.index_fill(0, e.tensor([0, 2]), 1),
            (x * 1).index_fill_(1, e.tensor([1]), 2),
        ],
        scatter_in_place=lambda e, x, y: [
            (x * 1).scatter_(1, e.tensor([[0, 1], [2, 0]]), y),
            (x * 1).scatter_(1, e.tensor([[0], [2]]), 3),
            (x * 1).scatter_add_(0, e.tensor([[1, 1], [1, 0]]), y),
        ],
    ),
    **two(
        pairs=[((3, 4), (2, 4))],
        dtypes=NUMBERS,
        index_add=lambda e, x, y: [
            e.index_add(x, 0, e.tensor([0, 0]), y),
            x.index_add(0, e.tensor([2, 0]), y, alpha=2),
            (x * 1).index_add_(0, e.tensor([1, 2]), y),
        ],
        gather=lambda e, x, y: [
            x.gather(0, e.tensor([[0, 2, 1, 1]])),
            e.gather(y, 1, e.tensor([[3, 3, 0], [0, 1, 2]])),
            e.take_along_dim(x, e.tensor([[0, 2, 1, 0]]), 0),
            e.take_along_dim(x.contiguous(), e.tensor([0, 5])),
            x.take_along_dim(e.tensor([[1], [0], [2]]), dim=1),
        ],
        index_select=lambda e, x, y: [x.index_select(0, e.tensor([0, 0, 2])), e.index_select(y, 1, e.tensor([3]))],
        advanced=lambda e, x, y: [
            x[e.tensor([0, 0, 2])],
            x[[0, 2], [1, 1]],
            x[x > 0],
            x[:, e.tensor([True, False, True, False])],
            y[e.tensor([[0, 1], [1, 1]])],
            x[0, e.tensor([1, 1])],
            x[..., [0, 0]],
        ],
    ),
    **two(
        pairs=[((2, 4), (2, 4))],
        dtypes=FLOATS,
        cosine_similarity=lambda e, x, y: module(e).cosine_similarity(x, y),
        attention=lambda e, x, y: module(e).scaled_dot_product_attention(x, y, x),
        causal=lambda e, x, y: module(e).scaled_dot_product_attention(x[None], y[None], y[None], is_causal=True),
        cross_entropy=lambda e, x, y: [
            module(e).cross_entropy(x, e.tensor([1, 3])),
            module(e).cross_entropy(y, e.tensor([2, -1]), ignore_index=-1, reduction="sum"),
            module(e).cross_entropy(x, e.tensor([0, 0]), label_smoothing=0.1, reduction="none"),
            module(e).cross_entropy(x, y.softmax(-1)),
            module(e).nll_loss(x.log_softmax(-1), e.tensor([0, 2])),
        ],
        embedding=lambda e, x, y: module(e).embedding(e.tensor([[1, 1], [0, 1]]), x),
        masked=lambda e, x, y: (x @ y.mT).masked_fill(e.tril(e.ones(2, 2)) == 0, -math.inf).softmax(-1),
        assigned=lambda e, x, y: assigned(x, y),
    ),
}


def assigned(x, y):
    """Write into a copy: an element, a row, a slice, where a mask is true."""
    z = x * 1
    z[0, 0] = y[1, 1]
    z[1] = y[0] * 2
    z[:, 2:] += y[:, :2]
    z[z > 1] = 0.5
    return z


@pytest.mark.parametrize("name", TWO)
def test_calls_on_two_tensors_agree(name):
    """Each call on pairs of shapes that broadcast or fit, in each dtype, the second also in other layouts."""
    call, dtypes, kind, pairs = TWO[name]
    worked = False
    for dtype, (left, right) in itertools.product(dtypes, pairs):
        rng = np.random.default_rng(len(left) + 10 * len(right))
        x, y = (numbers(rng, shape, dtype, kind) for shape in (left, right))
        for layout in LAYOUTS if dtype == "float64" else LAYOUTS[:1]:
            arrays = [lay_out(x, layout), lay_out(y, layout)]
            worked |= assert_parity(call, arrays, f"{name} of {dtype} {left} {right} {layout}")
    assert worked, f"{name} only raised errors"


# --- what takes no tensor ---------------------------------------------------------------------------


MADE = {
    "tril_indices": lambda e: [e.tril_indices(3, 4), e.tril_indices(3, 2, -1), e.tril_indices(2, 3, offset=1)],
    "triu_indices": lambda e: [e.triu_indices(3, 4), e.triu_indices(3, 2, -1), e.triu_indices(2, 3, offset=1)],
    "searchsorted": lambda e: [
        e.searchsorted(e.tensor([1, 3, 5]), e.tensor([[0, 3], [5, 6]])),
        e.searchsorted(e.tensor([1.0, 3.0]), e.tensor([1.0, 3.0]), right=True),
    ],
    "arange": lambda e: [e.arange(3), e.arange(1, 2, 0.25), e.arange(3, 0, -1), e.arange(2.0)],
    "linspace": lambda e: [e.linspace(0, 1, 5), e.linspace(1, 0, 1), e.eye(2, 3), e.full((2,), 3)],
    "tensor": lambda e: [e.tensor([1, 2.5]), e.tensor([True]), e.tensor([[1], [2]]), e.tensor([]), e.tensor(3)],
    "bincount": lambda e: [e.bincount(e.tensor([1, 1, 3]), e.tensor([0.5, 1.0, 2.0]))],
    "where_alone": lambda e: e.where(e.tensor([[True, False], [True, True]])),
    "fill_diagonal_": lambda e: e.zeros(3, 2).fill_diagonal_(5),
    "diagonal_written": lambda e: diagonal_written(e),
    "batch norm in evaluation": lambda e: e.nn.BatchNorm1d(2).eval()(e.tensor([[1.0, 2.0]])),
    "batch norm, averaged": lambda e: running_statistics(e),
}


def diagonal_written(e):
    x = e.zeros(2, 3)
    x.diagonal(1)[:] = e.tensor([1.0, 2.0])
    return x


def running_statistics(e):
    layer = e.nn.BatchNorm1d(2, momentum=None)
    for k in range(3):
        layer(e.tensor([[1.0, 2.0], [3.0, -k], [0.5, 4.0]]))
    return list(layer.state_dict().values())


@pytest.mark.parametrize("name", MADE)
def test_calls_on_no_tensor_agree(name):
    """What takes no tensor to differentiate gives the same values and dtypes."""
    assert assert_parity(lambda e: MADE[name](e), [], name)
