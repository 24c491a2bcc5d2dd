"""Names, limits and dtypes beside PyTorch's."""

import itertools
import math

import numpy as np
import pytest
from parity import dtype_name, torch

import minigrad as mg

DTYPES = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool")


def operands(engine, dtype):
    """Return a tensor, a 0-d tensor and (for some dtypes) a Python number of ``dtype``."""
    made = [engine.tensor(values, dtype=getattr(engine, dtype)) for values in ([1, 1], 1)]
    return made + {"float64": [1.5], "int64": [2], "bool": [True]}.get(dtype, [])


PROMOTED = {
    "add": lambda e, x, y: x + y,
    "mul": lambda e, x, y: x * y,
    "div": lambda e, x, y: x / y,
    "pow": lambda e, x, y: x**y,
    "maximum": lambda e, x, y: e.maximum(x, y),
    "where": lambda e, x, y: e.where(e.tensor([True, False]), x, y),
    "cat": lambda e, x, y: e.cat([e.atleast_1d(x) if e is torch else x.reshape(-1), y.reshape(-1)]),
    "lt": lambda e, x, y: x < y,
    "eq": lambda e, x, y: x == y,
}


@pytest.mark.parametrize("name", PROMOTED)
def test_two_operands_give_the_dtype_that_pytorch_gives(name):
    """Every pair of dtypes, as tensor, 0-d tensor and Python number: the dtype of the result is PyTorch's."""
    wrong = []
    for left, right in itertools.product(DTYPES, DTYPES):
        pairs = [list(itertools.product(operands(e, left), operands(e, right))) for e in (mg, torch)]
        for (x, y), (p, q) in zip(*pairs, strict=True):
            numbers_only = not isinstance(x, mg.Tensor) and not isinstance(y, mg.Tensor)
            if numbers_only or (
                name in ("maximum", "cat") and not (isinstance(p, torch.Tensor) and isinstance(q, torch.Tensor))
            ):
                continue
            try:
                theirs = dtype_name(PROMOTED[name](torch, p, q))
            except RuntimeError:
                continue
            ours = dtype_name(PROMOTED[name](mg, x, y))
            if ours != theirs:
                kinds = [f"{d}{getattr(z, 'shape', ' number')}" for d, z in ((left, x), (right, y))]
                wrong.append(f"{' '.join(kinds)}: {ours}, PyTorch {theirs}")
    assert not wrong, f"{len(wrong)} of {name}: " + "; ".join(wrong[:8])


def calls_by_keyword(e):
    """Yield what functions give whose arguments are all named."""
    x, y, v = e.tensor([[1.0, 2.0], [3.0, 4.0]]), e.tensor([[0.5, -1.0], [2.0, 0.0]]), e.tensor([1.0, -2.0])
    i, row = e.tensor([[1, 0], [0, 0]]), e.tensor([1, 1])
    yield e.exp(input=x)
    yield e.add(input=x, other=y)
    yield e.pow(input=x, exponent=2)
    yield e.where(condition=x > 2, input=x, other=y)
    yield e.sum(input=x, dim=0, keepdim=True)
    yield e.norm(input=x, p=2, dim=1)
    yield from e.var_mean(input=x, dim=0, correction=0)
    yield from e.max(input=x, dim=1)
    yield from e.sort(input=y, dim=1, descending=True)
    yield from e.topk(input=y, k=1, dim=0)
    yield e.matmul(input=x, other=y)
    yield e.mm(input=x, mat2=y)
    yield e.bmm(input=x[None], mat2=y[None])
    yield e.mv(input=x, vec=v)
    yield e.dot(input=v, tensor=v)
    yield e.outer(input=v, vec2=v)
    yield e.kron(input=x, other=y)
    yield e.tensordot(a=x, b=y, dims=1)
    yield e.einsum("ij,jk->ik", x, y)
    yield e.gather(input=x, dim=1, index=i)
    yield e.index_select(input=x, dim=0, index=row)
    yield e.scatter(input=x, dim=0, index=i, src=y)
    yield e.scatter_add(input=x, dim=0, index=i, src=y)
    yield e.index_add(input=x, dim=0, index=row, source=y, alpha=2)
    yield e.take_along_dim(input=x, indices=i, dim=0)
    yield e.masked_select(input=x, mask=x > 1)
    yield e.narrow(input=x, dim=1, start=1, length=1)
    yield e.select(input=x, dim=0, index=1)
    yield e.repeat_interleave(input=x, repeats=2, dim=0)
    yield e.bincount(input=row, minlength=3)
    yield e.unique(input=row)
    yield e.movedim(input=x, source=0, destination=1)
    yield e.diag(input=x, diagonal=1)
    yield e.trace(input=x)
    yield e.tile(input=x, dims=(2,))
    yield e.broadcast_to(input=v, size=(2, 2))
    yield from e.split(tensor=x, split_size_or_sections=1, dim=1)
    yield from e.chunk(input=x, chunks=2, dim=0)
    yield from e.unbind(input=x, dim=0)
    yield e.cat(tensors=[x, y], dim=1)
    yield e.stack(tensors=[x, y], dim=1)
    yield e.clamp(input=x, min=1.5, max=3)
    yield e.zeros_like(input=x)
    yield e.nn.functional.pad(input=x, pad=(1, 0), value=7.0)
    yield e.nn.functional.softmax(input=x, dim=-1)


def test_arguments_go_by_pytorchs_names():
    """A call that names every argument as PyTorch does is understood here, and gives the same."""
    for ours, theirs in zip(calls_by_keyword(mg), calls_by_keyword(torch), strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-6)


def test_the_graph_looks_like_pytorchs():
    """grad_fn has PyTorch's names, leads to the same nodes, and stands in the repr."""
    seen = []
    for e in (mg, torch):
        x = e.tensor([1.0, 2.0], requires_grad=True)
        y = (x.exp() * x).log_softmax(0)
        names, node = [], y.grad_fn
        while node.next_functions:
            names.append(node.name())
            node = node.next_functions[0][0]
        last = node.name().removeprefix("torch::autograd::")
        seen.append([*names, last, node.variable is x, repr(x * 2), repr(x.detach() > 1), repr(x)])
    assert seen[0] == seen[1]
    a, b = mg.ones(2, requires_grad=True).mul(2).split(1)
    assert [b.grad_fn.name(), b.grad_fn.next_functions[0][0].name()] == ["SplitBackward0", "MulBackward0"]
    assert (a + b).grad_fn.next_functions[1][1] == 1


def test_sizes_in_bytes_and_limits():
    """What an element and all elements occupy, and the limits of dtypes, as in PyTorch."""
    for e in (mg, torch):
        x = e.zeros(3, dtype=e.float64)
        assert (x.itemsize, x.element_size(), x.nbytes) == (8, 8, 24)
        assert (e.finfo(e.float32).eps, e.iinfo(e.int8).max) == (2**-23, 127)
        assert (e.pi, e.inf) == (math.pi, math.inf)


def test_the_coverage_command_prints_a_table_of_three_namespaces(monkeypatch, capsys):
    """The command prints a table of three namespaces, and without PyTorch a sentence and exit code 2."""
    import pytorch_coverage as coverage

    assert coverage.main() == 0
    text = capsys.readouterr().out
    assert all(f"| `{name}` |" in text for name in ("torch", "torch.nn.functional", "torch.Tensor"))

    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(coverage.importlib, "import_module", missing)
    assert coverage.main() == 2
    assert "not installed" in capsys.readouterr().err
