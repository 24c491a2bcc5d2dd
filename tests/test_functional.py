"""Layers and losses as functions: beside differences to the second order, and beside PyTorch."""

import numpy as np
import pytest
from oracles import same_on_pytorch

import minigrad as mg
import minigrad.nn.functional as F
from minigrad import nn
from minigrad.op import Op


def randn(*shape, seed=0, requires_grad=True):
    return mg.tensor(np.random.default_rng(seed).standard_normal(shape), requires_grad=requires_grad)


# Ordinary arguments, away from kinks.  A function of none of these names fails the test below, unless it is an
# operation of the engine, which has its cases in gradient_cases.
target = mg.tensor([1, 0, -100, 3])
probabilities = mg.tensor(np.random.default_rng(5).dirichlet(np.ones(4), 4), requires_grad=True)
fractions = mg.tensor(np.random.default_rng(6).random(4), requires_grad=True)
weights = mg.tensor([0.5, 1.0, 2.0, 0.25], dtype=mg.float64)
mask = mg.tensor([[True, False, True], [False, False, False], [True, True, True], [True, True, False]])
qkv = [randn(2, 4, 3, seed=1), randn(2, 3, 3, seed=2), randn(2, 3, 2, seed=3)]
CASES = {
    "relu": [(F.relu, randn(5))],
    "leaky_relu": [(F.leaky_relu, randn(5)), (lambda x: F.leaky_relu(x, 0.2), randn(5))],
    "elu": [(F.elu, randn(5)), (lambda x: F.elu(x, 0.5), randn(5))],
    "silu": [(F.silu, randn(5))],
    "logsigmoid": [(F.logsigmoid, randn(5))],
    "softmax": [(lambda x: F.softmax(x, dim=0), randn(3, 2))],
    "log_softmax": [(lambda x: F.log_softmax(x, dim=1), randn(3, 2))],
    "embedding": [
        (lambda w: F.embedding(mg.tensor([[0, 2], [2, 1]]), w), randn(3, 2)),
    ],
    "batch_norm": [
        (
            lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True, eps=0.1),
            randn(4, 2),
            randn(2, seed=1),
            randn(2, seed=2),
        ),
        (lambda x: F.batch_norm(x, mg.zeros(3), mg.ones(3)), randn(2, 3, 2)),
    ],
    "normalize": [(F.normalize, randn(2, 3)), (lambda x: F.normalize(x, 1, 0), randn(2, 3))],
    "cosine_similarity": [(F.cosine_similarity, randn(2, 3), randn(2, 3, seed=1))],
    "pad": [
        (lambda x: F.pad(x, (1, 2)), randn(2, 3)),
        (lambda x: F.pad(x, (-1, 1, 0, 2), value=3.0), randn(2, 3)),
    ],
    "kl_div": [
        (lambda x, y: F.kl_div(x, y.abs(), "batchmean"), randn(2, 3), randn(2, 3, seed=1)),
        (lambda x, y: F.kl_div(x, y, "sum", log_target=True), randn(2, 3), randn(2, 3, seed=1)),
    ],
    "binary_cross_entropy": [
        (
            F.binary_cross_entropy,
            mg.tensor([0.2, 0.9, 0.5, 0.4], dtype=mg.float64, requires_grad=True),
            fractions,
        )
    ],
    "smooth_l1_loss": [
        (F.smooth_l1_loss, randn(3, 2), randn(3, 2, seed=1)),
        (lambda x, y: F.smooth_l1_loss(x, y, "sum", 0.5), randn(3, 2), randn(3, 2, seed=1)),
    ],
    "mse_loss": [(F.mse_loss, randn(3, 2), randn(3, 2, seed=1))],
    "l1_loss": [(F.l1_loss, randn(3, 2), randn(3, 2, seed=1))],
    "binary_cross_entropy_with_logits": [
        (F.binary_cross_entropy_with_logits, randn(4), fractions),
        (
            lambda x, y: F.binary_cross_entropy_with_logits(x, y, weights, "sum", weights),
            randn(4),
            fractions,
        ),
    ],
    "nll_loss": [(lambda x: F.nll_loss(x, target, weights), randn(4, 4))],
    "cross_entropy": [
        (lambda x: F.cross_entropy(x, target), randn(4, 4)),
        (lambda x: F.cross_entropy(x, target, label_smoothing=0.1, reduction="none"), randn(4, 4)),
        (lambda x: F.cross_entropy(x, target, weights, label_smoothing=0.1), randn(4, 4)),
        (lambda x, y: F.cross_entropy(x, y, weights, label_smoothing=0.1), randn(4, 4), probabilities),
        (lambda x: F.cross_entropy(x, target.reshape(2, 2)), randn(2, 4, 2)),
    ],
    "scaled_dot_product_attention": [
        (F.scaled_dot_product_attention, *qkv),
        (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3), *qkv),
        (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, mask), *qkv),
        (F.scaled_dot_product_attention, *qkv, randn(4, 3)),
    ],
}
UNCHECKED = {
    "dropout": "a mask times the input, and random: its own tests below",
    "one_hot": "integers",
}


def test_every_function_has_a_case():
    operations = {name for name in F.__all__ if isinstance(getattr(F, name), Op)}
    assert {*CASES, *UNCHECKED, *operations} == set(F.__all__)
    assert not operations & {*CASES, *UNCHECKED}


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_both_orders(name):
    for function, *inputs in CASES[name]:
        assert mg.autograd.gradcheck(function, inputs)
        # The differences of the second derivative see the kink of |x| and of relu nowhere near these inputs.
        assert mg.autograd.gradgradcheck(function, inputs, rtol=1e-6)


def test_softmax_casts_first():
    assert F.softmax(mg.tensor([1.0, 2.0]), 0, dtype=mg.float64).dtype == mg.float64
    assert F.log_softmax(mg.tensor([1.0, 2.0]), 0, dtype=mg.float64).dtype == mg.float64
    with pytest.raises(IndexError):
        F.softmax(mg.ones(2), 3)


def test_the_padding_row_receives_no_gradient():
    w = mg.ones(3, 2, requires_grad=True)
    y = F.embedding(mg.tensor([[0, 1], [1, 2]]), w, padding_idx=-2)
    assert y.shape == (2, 2, 2)
    assert y.detach().numpy().all()
    y.backward(mg.tensor([[[2.0, -3.0], [5.0, 5.0]], [[5.0, 5.0], [-1.0, 4.0]]]))
    assert w.grad.tolist() == [[2, -3], [0, 0], [-1, 4]]


def test_dropout_drops_and_scales():
    mg.manual_seed(0)
    x = mg.ones(200, 100, requires_grad=True)
    y = F.dropout(x, 0.25)
    values = np.unique(y.detach().numpy())
    assert values.tolist() == pytest.approx([0, 4 / 3])
    assert y.mean().item() == pytest.approx(1, abs=0.01)
    g = mg.randn(200, 100)
    y.backward(g)
    assert mg.equal(x.grad, g * y)  # y is the mask, for x is one everywhere
    assert F.dropout(x, 0.25, training=False) is x
    assert F.dropout(x, 0.0) is x
    assert F.dropout(x, 1.0).abs().sum().item() == 0
    assert nn.Dropout(0.9).eval()(x) is x
    mg.manual_seed(0)
    assert mg.equal(F.dropout(x, 0.25), y)
    for p in (-0.1, 1.1):
        with pytest.raises(ValueError, match=str(p)):
            F.dropout(x, p)


def test_one_hot():
    assert F.one_hot(mg.tensor([[0], [2]]), 4).tolist() == [[[1, 0, 0, 0]], [[0, 0, 1, 0]]]
    assert F.one_hot(mg.tensor(1)).tolist() == [0, 1]
    assert F.one_hot(mg.tensor([1])).dtype == mg.int64
    assert F.one_hot(mg.zeros(0, dtype=mg.int64), 3).shape == (0, 3)
    for wrong, classes, message in (
        (mg.tensor([3]), 3, "class 3"),
        (mg.tensor([-1]), 3, "class -1"),
        (mg.tensor([1.0]), 3, "float32"),
        (mg.zeros(0, dtype=mg.int64), -1, "num_classes"),
    ):
        with pytest.raises(RuntimeError, match=message):
            F.one_hot(wrong, classes)


# --- attention --------------------------------------------------------------------------------------


def attention_arrays(seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape) for shape in ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6))]


def test_attention_matches_pytorch(torch):
    peer = torch.nn.functional.scaled_dot_product_attention
    arrays = attention_arrays()
    allowed = np.random.default_rng(1).random((2, 1, 5, 7)) < 0.6
    allowed[..., 0] = True
    added = np.random.default_rng(2).standard_normal((5, 7))
    same_on_pytorch(torch, F.scaled_dot_product_attention, peer, arrays)
    for options in ({"is_causal": True}, {"scale": 0.2}, {"is_causal": True, "scale": 2.0}):
        same_on_pytorch(
            torch,
            lambda *x, o=options: F.scaled_dot_product_attention(*x, **o),
            lambda *x, o=options: peer(*x, **o),
            arrays,
        )
    for given in (allowed, added):
        same_on_pytorch(
            torch,
            lambda *x, m=given: F.scaled_dot_product_attention(*x, mg.tensor(m)),
            lambda *x, m=given: peer(*x, torch.tensor(m)),
            arrays,
        )
    same_on_pytorch(torch, F.scaled_dot_product_attention, peer, [*arrays, added])  # the mask learns too


def test_attention_drops_weights_with_the_right_expectation():
    mg.manual_seed(0)
    q, k = mg.zeros(1, 4), mg.zeros(50, 4)
    v = mg.eye(50)  # the output then is the row of weights
    drawn = mg.cat([F.scaled_dot_product_attention(q, k, v, dropout_p=0.4) for _ in range(200)])
    assert np.unique(drawn.numpy()).tolist() == pytest.approx([0, 1 / (50 * 0.6)])
    assert drawn.sum(1).mean().item() == pytest.approx(1, abs=0.03)
    assert drawn.dtype == mg.float32


def test_wrong_arguments_of_attention_are_refused():
    q = mg.ones(2, 3)
    with pytest.raises(RuntimeError, match="not both"):
        F.scaled_dot_product_attention(q, q, q, mg.ones(2, 2).bool(), is_causal=True)
    with pytest.raises(RuntimeError, match="int64"):
        F.scaled_dot_product_attention(q, q, q, mg.ones(2, 2).long())
    with pytest.raises(ValueError, match="2"):
        F.scaled_dot_product_attention(q, q, q, dropout_p=2)
    with pytest.raises(RuntimeError):
        F.scaled_dot_product_attention(q, mg.ones(2, 4), q)


# --- losses -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(4,), (6, 4), (3, 4, 5), (2, 4, 3, 2)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.2])
def test_cross_entropy_matches_pytorch(torch, shape, weighted, label_smoothing):
    rng = np.random.default_rng(0)
    logits = rng.standard_normal(shape)
    dim = 0 if len(shape) == 1 else 1
    classes = rng.integers(0, 4, shape[:dim] + shape[dim + 1 :])
    if classes.ndim:
        classes.flat[1] = -1
    soft = np.moveaxis(rng.dirichlet(np.ones(4), shape[:dim] + shape[dim + 1 :]), -1, dim)
    weight = rng.random(4) + 0.5 if weighted else None
    for reduction in ("mean", "sum", "none"):
        for expected in (classes, soft):
            options = {"ignore_index": -1, "reduction": reduction, "label_smoothing": label_smoothing}
            same_on_pytorch(
                torch,
                lambda x, t=expected, o=options: F.cross_entropy(
                    x, mg.tensor(t), None if weight is None else mg.tensor(weight), **o
                ),
                lambda x, t=expected, o=options: torch.nn.functional.cross_entropy(
                    x, torch.tensor(t), None if weight is None else torch.tensor(weight), **o
                ),
                [logits],
            )
        same_on_pytorch(
            torch,
            lambda x, r=reduction: F.nll_loss(
                x, mg.tensor(classes), None if weight is None else mg.tensor(weight), -1, r
            ),
            lambda x, r=reduction: torch.nn.functional.nll_loss(
                x,
                torch.tensor(classes),
                None if weight is None else torch.tensor(weight),
                ignore_index=-1,
                reduction=r,
            ),
            [logits],
        )


def test_other_losses_match_pytorch(torch):
    rng = np.random.default_rng(0)
    x, y, w = rng.standard_normal((3, 4)), rng.random((3, 4)), rng.random(4)
    peer = torch.nn.functional
    for reduction in ("mean", "sum", "none"):
        for mine, theirs in ((F.mse_loss, peer.mse_loss), (F.l1_loss, peer.l1_loss)):
            same_on_pytorch(
                torch,
                lambda x, y, f=mine, r=reduction: f(x, y, reduction=r),
                lambda x, y, f=theirs, r=reduction: f(x, y, reduction=r),
                [x, y],
            )
        same_on_pytorch(
            torch,
            lambda x, w, r=reduction: (
                F.binary_cross_entropy_with_logits(
                    x, mg.tensor(y), mg.tensor(w.detach()), r, mg.tensor(w.detach()) + 1
                )
                + 0 * w.sum()
            ),
            lambda x, w, r=reduction: (
                peer.binary_cross_entropy_with_logits(
                    x, torch.tensor(y), w.detach(), reduction=r, pos_weight=w.detach() + 1
                )
                + 0 * w.sum()
            ),
            [x, w],
        )


def test_loss_modules_call_the_functions():
    x, t = randn(4, 4), mg.tensor([0, 1, 2, 3])
    assert mg.equal(
        nn.CrossEntropyLoss(weights, 2, "sum", 0.1)(x, t), F.cross_entropy(x, t, weights, 2, "sum", 0.1)
    )
    assert mg.equal(nn.NLLLoss(weights)(x, t), F.nll_loss(x, t, weights))
    assert mg.equal(nn.MSELoss("sum")(x, x.detach() + 1), mg.tensor(16.0, dtype=mg.float64))
    assert mg.equal(nn.L1Loss()(x, x.detach() + 1), F.l1_loss(x, x.detach() + 1))
    assert nn.BCEWithLogitsLoss(pos_weight=weights)(x, F.sigmoid(x)).ndim == 0
    assert list(nn.CrossEntropyLoss(weights).state_dict()) == ["weight"]


def test_wrong_targets_are_named():
    x = mg.zeros(3, 5)
    for bad in (5, -1):
        with pytest.raises(IndexError, match=f"target {bad} is out of range for 5 classes"):
            F.cross_entropy(x, mg.tensor([0, bad, -100]))
        with pytest.raises(IndexError, match=str(bad)):
            F.nll_loss(x, mg.tensor([0, bad, 1]))
    with pytest.raises(ValueError, match=r"\(3, 5\).*\(3,\).*\(2,\)"):
        F.cross_entropy(x, mg.tensor([0, 1]))
    with pytest.raises(RuntimeError, match=r"\(3, 5, 2\)"):
        F.cross_entropy(mg.zeros(3, 5, 2), mg.zeros(3, 4).long())
    with pytest.raises(RuntimeError, match="float32"):
        F.cross_entropy(x, mg.zeros(3))
    with pytest.raises(RuntimeError, match=r"\(4,\)"):
        F.cross_entropy(x, mg.tensor([0, 1, 2]), mg.ones(4))
    with pytest.raises(RuntimeError, match="2"):
        F.cross_entropy(x, mg.tensor([0, 1, 2]), label_smoothing=2)
    with pytest.raises(ValueError, match="'all'"):
        F.cross_entropy(x, mg.tensor([0, 1, 2]), reduction="all")
    with pytest.raises(ValueError, match=r"\(3,\)"):
        F.binary_cross_entropy_with_logits(mg.zeros(2), mg.zeros(3))
    with pytest.warns(UserWarning, match=r"\(3, 1\)"):
        F.mse_loss(mg.zeros(3), mg.zeros(3, 1))
