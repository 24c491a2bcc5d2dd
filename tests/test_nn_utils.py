"""Initial values of parameters, gradients clipped, and parameters as one vector."""

import math

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn

# --- initial values ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fill", "mean", "std"),
    [
        (lambda t, g: nn.init.uniform_(t, 1, 3, generator=g), 2, 2 / math.sqrt(12)),
        (lambda t, g: nn.init.normal_(t, 5, 0.5, generator=g), 5, 0.5),
        (lambda t, g: nn.init.trunc_normal_(t, 0, 1, -1, 1, generator=g), 0, 0.5396),
        (lambda t, g: nn.init.xavier_uniform_(t, 2, generator=g), 0, 2 * math.sqrt(2 / 500)),
        (lambda t, g: nn.init.xavier_normal_(t, generator=g), 0, math.sqrt(2 / 500)),
        (lambda t, g: nn.init.kaiming_uniform_(t, generator=g), 0, math.sqrt(2 / 300)),
        (lambda t, g: nn.init.kaiming_normal_(t, mode="fan_out", nonlinearity="relu", generator=g), 0, 0.1),
    ],
)
def test_initial_values_have_their_distribution(fill, mean, std):
    t = nn.Parameter(mg.empty(200, 300))
    version = t._version[0]
    assert fill(t, mg.Generator().manual_seed(1)) is t
    values = t.detach().numpy()
    assert t.is_leaf
    assert t.requires_grad
    assert t._version[0] > version
    assert values.mean() == pytest.approx(mean, abs=5 * std / math.sqrt(values.size))
    assert values.std() == pytest.approx(std, rel=0.02)
    first = values.copy()
    fill(t, mg.Generator().manual_seed(1))
    assert np.array_equal(first, values)


def test_constant_initial_values():
    t = mg.empty(2, 3)
    assert nn.init.constant_(t, 4).tolist() == [[4] * 3] * 2
    assert nn.init.ones_(t).tolist() == [[1] * 3] * 2
    assert nn.init.zeros_(t).tolist() == [[0] * 3] * 2
    assert nn.init.eye_(t).tolist() == [[1, 0, 0], [0, 1, 0]]


def test_the_cut_normal_stays_inside_and_is_normal_there():
    t = nn.init.trunc_normal_(mg.empty(100_000, dtype=mg.float64), 1, 2, 0, 10, mg.Generator().manual_seed(0))
    values = t.numpy()
    assert values.min() >= 0
    assert values.max() <= 10

    def below(x):
        return 0.5 * (1 + math.erf((x - 1) / (2 * math.sqrt(2))))

    for x in (0.5, 1.0, 2.0, 5.0):
        assert (values < x).mean() == pytest.approx((below(x) - below(0)) / (below(10) - below(0)), abs=0.01)
    with pytest.raises(ValueError, match="2 and 1"):
        nn.init.trunc_normal_(t, a=2, b=1)


def test_orthogonal_rows():
    t = nn.init.orthogonal_(mg.empty(3, 2, 4, dtype=mg.float64), gain=2)
    rows = t.numpy().reshape(3, 8)
    np.testing.assert_allclose(rows @ rows.T, 4 * np.eye(3), atol=1e-13)


def test_gains_match_pytorch(torch):
    for name in ("linear", "sigmoid", "tanh", "relu", "selu", "leaky_relu"):
        assert nn.init.calculate_gain(name) == torch.nn.init.calculate_gain(name)
    assert nn.init.calculate_gain("leaky_relu", 0.3) == torch.nn.init.calculate_gain("leaky_relu", 0.3)
    with pytest.raises(ValueError, match="swish"):
        nn.init.calculate_gain("swish")
    with pytest.raises(ValueError, match=r"\(3,\)"):
        nn.init.xavier_uniform_(mg.ones(3))
    with pytest.raises(ValueError, match="fan_avg"):
        nn.init.kaiming_normal_(mg.ones(3, 3), mode="fan_avg")


# --- clipping ---------------------------------------------------------------------------------------


def with_gradients(seed=0):
    rng = np.random.default_rng(seed)
    tensors = [mg.ones(*shape, dtype=mg.float64, requires_grad=True) for shape in ((3, 4), (5,), ())]
    for tensor in tensors[:2]:
        tensor.grad = mg.tensor(rng.standard_normal(tensor.shape))
    return tensors


@pytest.mark.parametrize("norm_type", [2.0, 1.0, 3.0, math.inf])
@pytest.mark.parametrize("max_norm", [0.5, 100.0])
def test_clipping_by_norm_matches_pytorch(torch, norm_type, max_norm):
    mine = with_gradients()
    peers = [torch.ones(t.shape, dtype=torch.float64, requires_grad=True) for t in mine]
    for tensor, peer in zip(mine, peers, strict=True):
        peer.grad = None if tensor.grad is None else torch.tensor(tensor.grad.numpy())
    norm = nn.utils.clip_grad_norm_(iter(mine), max_norm, norm_type)
    expected = torch.nn.utils.clip_grad_norm_(peers, max_norm, norm_type)
    assert isinstance(norm, mg.Tensor)
    assert norm.item() == pytest.approx(expected.item(), rel=1e-12)
    for tensor, peer in zip(mine[:2], peers, strict=False):
        np.testing.assert_allclose(tensor.grad.numpy(), peer.grad.numpy(), rtol=1e-12)


def test_clipping_survives_float32s_range():
    x = mg.ones(2, requires_grad=True)
    x.grad = mg.tensor([3e30, 4e30])
    array = x.grad.numpy()
    assert nn.utils.clip_grad_norm_(x, 1.0).item() == pytest.approx(5e30)
    assert array.tolist() == pytest.approx([0.6, 0.8])  # in place
    assert array.dtype == np.float32
    x.grad = mg.tensor([3e-30, 4e-30])
    assert nn.utils.clip_grad_norm_(x, 1.0).item() == pytest.approx(5e-30)


def test_a_norm_that_is_not_finite():
    x = mg.ones(2, requires_grad=True)
    x.grad = mg.tensor([math.nan, 1.0])
    with pytest.raises(RuntimeError, match="nan"):
        nn.utils.clip_grad_norm_([x], 1.0, error_if_nonfinite=True)
    assert math.isnan(nn.utils.clip_grad_norm_([x], 1.0).item())
    assert math.isnan(x.grad[1].item())
    assert nn.utils.clip_grad_norm_([mg.ones(1, requires_grad=True)], 1.0).item() == 0


def test_clipping_by_value():
    x = mg.ones(3, requires_grad=True)
    x.grad = mg.tensor([-5.0, 0.5, 5.0])
    nn.utils.clip_grad_value_(x, 1.0)
    assert x.grad.tolist() == [-1, 0.5, 1]


def test_parameters_as_one_vector_and_back():
    net = nn.Linear(2, 3)
    vector = nn.utils.parameters_to_vector(net.parameters())
    assert vector.shape == (9,)
    vector.backward(mg.arange(9.0))
    assert net.weight.grad.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert net.bias.grad.tolist() == [6, 7, 8]
    nn.utils.vector_to_parameters(mg.arange(9.0), net.parameters())
    assert net.bias.tolist() == [6, 7, 8]
    with pytest.raises(ValueError, match=r"9 elements.*\(8,\)"):
        nn.utils.vector_to_parameters(mg.zeros(8), net.parameters())
