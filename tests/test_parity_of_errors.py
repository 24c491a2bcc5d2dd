"""Calls that PyTorch refuses are refused here, with an error of the same type and a sentence."""

import math
import warnings

import numpy as np
import pytest
from parity import module, torch

import minigrad as mg

BAD = {
    "shapes that don't broadcast": lambda e: e.ones(2, 3) + e.ones(4),
    "shapes that don't broadcast, in place": lambda e: e.ones(2).add_(e.ones(3)),
    "a result too large in place": lambda e: e.ones(2).mul_(e.ones(3, 2)),
    "float into int in place": lambda e: e.ones(2, dtype=e.int64).add_(0.5),
    "int divided in place": lambda e: e.ones(2, dtype=e.int64).div_(2),
    "matmul of shapes that don't fit": lambda e: e.ones(2, 3) @ e.ones(2, 3),
    "matmul of a number": lambda e: e.ones(2, 2) @ e.tensor(1.0),
    "mm of a vector": lambda e: e.mm(e.ones(2, 2), e.ones(2)),
    "mv of two matrices": lambda e: e.mv(e.ones(2, 2), e.ones(2, 2)),
    "bmm of matrices": lambda e: e.bmm(e.ones(2, 2), e.ones(2, 2)),
    "bmm of different batches": lambda e: e.bmm(e.ones(2, 2, 2), e.ones(3, 2, 2)),
    "dot of matrices": lambda e: e.dot(e.ones(2, 2), e.ones(2, 2)),
    "dot of different lengths": lambda e: e.dot(e.ones(2), e.ones(3)),
    "addmm of a vector": lambda e: e.addmm(e.ones(2), e.ones(2), e.ones(2, 2)),
    "tensordot of sizes that differ": lambda e: e.tensordot(e.ones(2, 3), e.ones(2, 3), 1),
    "einsum with too few operands": lambda e: e.einsum("ij,jk->ik", e.ones(2, 2)),
    "einsum with sizes that differ": lambda e: e.einsum("ij,jk->ik", e.ones(2, 2), e.ones(3, 2)),
    "sum over a dim that isn't there": lambda e: e.ones(2, 3).sum(2),
    "softmax over a dim that isn't there": lambda e: e.ones(2).softmax(1),
    "max of nothing": lambda e: e.ones(0).max(),
    "max of nothing over a dim": lambda e: e.ones(0, 2).max(0),
    "argmax of nothing": lambda e: e.ones(0).argmax(),
    "amax of nothing over a dim": lambda e: e.ones(0, 2).amax(0),
    "a dim named twice": lambda e: e.ones(2, 3).sum((0, 0)),
    "cumsum without a dim there": lambda e: e.ones(2).cumsum(1),
    "cumprod without a dim there": lambda e: e.ones(2).cumprod(-2),
    "logsumexp of a dim that isn't there": lambda e: e.ones(2).logsumexp(3),
    "clamp without bounds": lambda e: e.ones(2).clamp(),
    "reshape to another size": lambda e: e.ones(2, 3).reshape(4),
    "reshape with two -1": lambda e: e.ones(2, 3).reshape(-1, -1),
    "view of a transpose": lambda e: e.ones(2, 3).t().view(6),
    "view of another size": lambda e: e.ones(2, 3).view(4),
    "permute with too few dims": lambda e: e.ones(2, 3).permute(0),
    "permute with a dim twice": lambda e: e.ones(2, 3).permute(0, 0),
    "transpose of a dim that isn't there": lambda e: e.ones(2, 3).transpose(0, 2),
    "movedim of unequal numbers": lambda e: e.movedim(e.ones(2, 3), (0, 1), (0,)),
    "expand of a size that isn't 1": lambda e: e.ones(2, 3).expand(4, 3),
    "expand to fewer dims": lambda e: e.ones(2, 3).expand(3),
    "expand of a new dim by -1": lambda e: e.ones(3).expand(-1, 3),
    "squeeze of a dim that isn't there": lambda e: e.ones(2).squeeze(1),
    "unsqueeze too far": lambda e: e.ones(2).unsqueeze(3),
    "repeat with too few numbers": lambda e: e.ones(2, 2).repeat(2),
    "flatten backwards": lambda e: e.ones(2, 3).flatten(1, 0),
    "t of three dims": lambda e: e.ones(2, 2, 2).t(),
    "tril of a vector": lambda e: e.ones(3).tril(),
    "diag of three dims": lambda e: e.diag(e.ones(2, 2, 2)),
    "diagonal of one dim twice": lambda e: e.ones(2, 2).diagonal(0, 0, 0),
    "trace of a vector": lambda e: e.trace(e.ones(2)),
    "cat of nothing": lambda e: e.cat([]),
    "cat of different shapes": lambda e: e.cat([e.ones(2, 3), e.ones(2, 2)], 0),
    "cat of different dims": lambda e: e.cat([e.ones(2, 3), e.ones(2)], 0),
    "cat of numbers": lambda e: e.cat([e.tensor(1.0), e.tensor(2.0)]),
    "cat over a dim that isn't there": lambda e: e.cat([e.ones(2)], 1),
    "cat of a tensor": lambda e: e.cat([1.0, 2.0]),
    "stack of different shapes": lambda e: e.stack([e.ones(2), e.ones(3)]),
    "stack of nothing": lambda e: e.stack([]),
    "split by 0": lambda e: e.ones(3).split(0),
    "split by the wrong sizes": lambda e: e.ones(3).split([1, 1]),
    "chunk by 0": lambda e: e.ones(3).chunk(0),
    "meshgrid by another indexing": lambda e: e.meshgrid(e.ones(2), indexing="zz"),
    "narrow too long": lambda e: e.ones(3).narrow(0, 2, 2),
    "narrow from too far": lambda e: e.ones(3).narrow(0, 4, 0),
    "select out of range": lambda e: e.ones(3).select(0, 3),
    "select of a number": lambda e: e.tensor(1.0).select(0, 0),
    "index out of range": lambda e: e.ones(3)[3],
    "index of a number": lambda e: e.tensor(1.0)[0],
    "too many indices": lambda e: e.ones(3)[0, 0],
    "an index tensor out of range": lambda e: e.ones(3)[e.tensor([3])],
    "an index of floats": lambda e: e.ones(3)[e.tensor([0.5])],
    "a mask of another size": lambda e: e.ones(3)[e.tensor([True, False])],
    "assignment of a shape that doesn't fit": lambda e: e.ones(3).__setitem__(slice(0, 2), e.ones(3)),
    "gather out of range": lambda e: e.ones(3).gather(0, e.tensor([3])),
    "gather of negative": lambda e: e.ones(3).gather(0, e.tensor([-1])),
    "gather with other dims": lambda e: e.ones(3).gather(0, e.tensor([[0]])),
    "gather by floats": lambda e: e.ones(3).gather(0, e.tensor([0.0])),
    "gather over a dim that isn't there": lambda e: e.ones(3).gather(1, e.tensor([0])),
    "index_select out of range": lambda e: e.ones(3).index_select(0, e.tensor([3])),
    "index_select by a matrix": lambda e: e.ones(3).index_select(0, e.tensor([[0]])),
    "index_select by floats": lambda e: e.ones(3).index_select(0, e.tensor([0.0])),
    "index_add of the wrong number": lambda e: e.ones(3).index_add(0, e.tensor([0]), e.ones(2)),
    "index_add out of range": lambda e: e.ones(3).index_add(0, e.tensor([5]), e.ones(1)),
    "scatter out of range": lambda e: e.zeros(3).scatter(0, e.tensor([3]), 1.0),
    "scatter of another dtype": lambda e: e.zeros(3).scatter(0, e.tensor([0]), e.tensor([1])),
    "scatter_add out of range": lambda e: e.zeros(3).scatter_add(0, e.tensor([3]), e.ones(1)),
    "scatter_add of a short source": lambda e: e.zeros(3).scatter_add(0, e.tensor([0, 1]), e.ones(1)),
    "masked_fill by ints": lambda e: e.ones(2).masked_fill(e.tensor([1, 0]), 0.0),
    "masked_fill by a vector": lambda e: e.ones(2).masked_fill(e.tensor([True, False]), e.ones(2)),
    "masked_fill of ints by inf": lambda e: e.tensor([1]).masked_fill(e.tensor([True]), math.inf),
    "masked_select by ints": lambda e: e.ones(2).masked_select(e.tensor([1, 0])),
    "repeat_interleave by a negative": lambda e: e.ones(2).repeat_interleave(-1),
    "repeat_interleave by too many": lambda e: e.ones(2).repeat_interleave(e.tensor([1, 2, 3])),
    "repeat_interleave by floats": lambda e: e.ones(2).repeat_interleave(e.tensor([1.0, 2.0])),
    "topk of too many": lambda e: e.ones(2).topk(3),
    "sort over a dim that isn't there": lambda e: e.ones(2).sort(1),
    "bincount of negatives": lambda e: e.tensor([-1]).bincount(),
    "bincount of a matrix": lambda e: e.tensor([[1]]).bincount(),
    "one_hot of floats": lambda e: module(e).one_hot(e.ones(2)),
    "one_hot of too large a class": lambda e: module(e).one_hot(e.tensor([3]), 2),
    "div by another rounding": lambda e: e.div(e.ones(2), 2, rounding_mode="up"),
    "bitwise of floats": lambda e: e.ones(2) & e.ones(2),
    "not of floats": lambda e: ~e.ones(2),
    "minus of bools": lambda e: -e.tensor([True]),
    "difference of bools": lambda e: e.tensor([True]) - e.tensor([True]),
    "truth of several": lambda e: bool(e.ones(2)),
    "item of several": lambda e: e.ones(2).item(),
    "length of a number": lambda e: len(e.tensor(1.0)),
    "iteration of a number": lambda e: list(e.tensor(1.0)),
    "an array of what has a graph": lambda e: np.asarray(e.ones(2, requires_grad=True)),
    "numpy of what has a graph": lambda e: e.ones(2, requires_grad=True).numpy(),
    "ints with a gradient": lambda e: e.tensor([1, 2], requires_grad=True),
    "backward of several": lambda e: e.ones(2, requires_grad=True).mul(2).backward(),
    "backward of nothing": lambda e: e.ones(1).backward(),
    "backward twice": lambda e: twice(e.ones(1, requires_grad=True).exp()),
    "a cotangent of another shape": lambda e: e.ones(2, requires_grad=True).mul(2).backward(e.ones(3)),
    "a leaf written in place": lambda e: e.ones(2, requires_grad=True).add_(1),
    "a leaf drawn anew": lambda e: e.ones(2, requires_grad=True).normal_(),
    "a saved value written": lambda e: written(e.ones(2, requires_grad=True)),
    "requires_grad off inside a graph": lambda e: e.ones(2, requires_grad=True).mul(2).requires_grad_(False),
    "an unused input": lambda e: e.autograd.grad(
        e.ones(1, requires_grad=True).sum(), e.ones(1, requires_grad=True)
    ),
    "tensor of text": lambda e: e.tensor("abc"),
    "tensor of None": lambda e: e.tensor(None),
    "ragged lists": lambda e: e.tensor([[1, 2], [3]]),
    "a negative size": lambda e: e.zeros(-1),
    "an argument that isn't there": lambda e: e.exp(e.ones(2), nonsense=1),
    "an argument too many": lambda e: e.exp(e.ones(2), 1, 2),
    "no argument": lambda e: e.exp(),
    "a function of a number": lambda e: e.exp(1.0),
    "a function of a list": lambda e: e.sum([1.0, 2.0]),
    "a method of text": lambda e: e.ones(2).add("a"),
    "a sum with None": lambda e: e.ones(2) + None,
    "a function of an array": lambda e: e.exp(np.ones(2)),
    "a vector to linear that doesn't fit": lambda e: module(e).linear(e.ones(2), e.ones(3, 3)),
    "embedding out of range": lambda e: module(e).embedding(e.tensor([5]), e.ones(3, 2)),
    "embedding by floats": lambda e: module(e).embedding(e.ones(2), e.ones(3, 2)),
    "layer_norm of another shape": lambda e: module(e).layer_norm(e.ones(2, 3), (4,)),
    "dropout of p > 1": lambda e: module(e).dropout(e.ones(2), 1.5),
    "cross_entropy of batches that differ": lambda e: module(e).cross_entropy(e.ones(2, 3), e.tensor([0, 1, 2])),
    "cross_entropy of too large a class": lambda e: module(e).cross_entropy(e.ones(2, 3), e.tensor([0, 3])),
    "cross_entropy of another reduction": lambda e: module(e).cross_entropy(
        e.ones(2, 3), e.tensor([0, 1]), reduction="x"
    ),
    "binary cross-entropy of shapes that differ": lambda e: module(e).binary_cross_entropy_with_logits(
        e.ones(2), e.ones(2, 1)
    ),
    "mse_loss of another reduction": lambda e: module(e).mse_loss(e.ones(2), e.ones(2), reduction="x"),
    "attention of shapes that don't fit": lambda e: module(e).scaled_dot_product_attention(
        e.ones(2, 3), e.ones(2, 4), e.ones(2, 3)
    ),
    "pad by an odd number": lambda e: module(e).pad(e.ones(2), (1, 1, 1)),
    "pad of too many dims": lambda e: module(e).pad(e.ones(2), (1, 1, 1, 1)),
    "pad by another mode": lambda e: module(e).pad(e.ones(2), (1, 1), mode="x"),
    "batch norm of one value": lambda e: e.nn.BatchNorm1d(3)(e.ones(1, 3)),
    "batch norm of a vector": lambda e: e.nn.BatchNorm1d(3)(e.ones(3)),
    "a layer called with another width": lambda e: e.nn.Linear(2, 3)(e.ones(4)),
    "a parameter that is no Parameter": lambda e: setattr(e.nn.Linear(2, 3), "weight", e.ones(3, 2)),
    "a state of other names": lambda e: e.nn.Linear(2, 3).load_state_dict({"w": e.ones(1)}),
    "an attribute that isn't there": lambda e: e.nn.Linear(2, 3).nonsense,
    "an optimizer of nothing": lambda e: e.optim.SGD([], lr=0.1),
    "an optimizer with a negative rate": lambda e: e.optim.SGD([e.ones(1, requires_grad=True)], lr=-1.0),
    "an optimizer of a tensor": lambda e: e.optim.SGD(e.ones(1, requires_grad=True), lr=0.1),
    "draws of negative weights": lambda e: e.multinomial(e.tensor([-1.0, 2.0]), 1),
    "too many draws": lambda e: e.multinomial(e.ones(2), 3),
    "the default dtype an integer": lambda e: e.set_default_dtype(e.int64),
}


def twice(y):
    y.backward()
    y.backward()


def written(x):
    y = x * 1
    z = y.exp()
    z += 1
    z.sum().backward()


@pytest.mark.parametrize("name", BAD)
def test_both_engines_refuse_alike(name):
    """Both engines refuse, with an error of one type, ours with a sentence.

    PyTorch's NotImplementedError, a RuntimeError, stands for a dtype without a kernel: a RuntimeError here.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception) as theirs:  # noqa: PT011  # whichever it is
            BAD[name](torch)
        with pytest.raises(RuntimeError if theirs.type is NotImplementedError else theirs.type) as ours:
            BAD[name](mg)
    assert len(str(ours.value)) > 10
