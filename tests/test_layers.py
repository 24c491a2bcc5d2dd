"""Layers: how they start, that they are PyTorch's, what they refuse; and that a net of them learns."""

import math

import numpy as np
import pytest
from oracles import same_on_pytorch

import minigrad as mg
import minigrad.nn.functional as F
from minigrad import nn


def test_layers_start_as_pytorchs_do():
    mg.manual_seed(0)
    linear = nn.Linear(400, 300)
    bound = 1 / math.sqrt(400)
    for parameter in linear.parameters():
        values = parameter.detach().numpy()
        assert np.abs(values).max() <= bound
        assert values.std() == pytest.approx(bound / math.sqrt(3), rel=0.1)
    table = nn.Embedding(300, 40, padding_idx=-1)
    assert table.padding_idx == 299
    assert table.weight[299].abs().sum().item() == 0
    assert table.weight[:299].std().item() == pytest.approx(1, rel=0.05)
    norm = nn.LayerNorm((2, 3))
    assert norm.weight.tolist() == [[1] * 3] * 2
    assert norm.bias.tolist() == [[0] * 3] * 2
    assert nn.LayerNorm(3, bias=False).bias is None
    assert list(nn.LayerNorm(3, elementwise_affine=False).parameters()) == []
    assert nn.Linear(2, 2, dtype=mg.float64).weight.dtype == mg.float64


def test_the_same_seed_gives_the_same_layers():
    def weights():
        mg.manual_seed(3)
        return nn.Linear(3, 3).weight

    assert mg.equal(weights(), weights())


def test_layers_match_pytorch(torch):
    x = np.random.default_rng(0).standard_normal((2, 3, 4))
    pairs = [
        (nn.Linear(4, 5), torch.nn.Linear(4, 5)),
        (nn.LayerNorm((3, 4), eps=1e-3), torch.nn.LayerNorm((3, 4), eps=1e-3)),
        (nn.LayerNorm(4, bias=False), torch.nn.LayerNorm(4, bias=False)),
        (nn.ReLU(), torch.nn.ReLU()),
        (nn.GELU(), torch.nn.GELU()),
        (nn.GELU("tanh"), torch.nn.GELU("tanh")),
        (nn.SiLU(), torch.nn.SiLU()),
        (nn.Softplus(), torch.nn.Softplus()),
        (nn.Tanh(), torch.nn.Tanh()),
        (nn.Sigmoid(), torch.nn.Sigmoid()),
        (nn.Softmax(dim=1), torch.nn.Softmax(dim=1)),
        (nn.LogSoftmax(dim=-1), torch.nn.LogSoftmax(dim=-1)),
        (nn.Flatten(), torch.nn.Flatten()),
        (nn.Identity(), torch.nn.Identity()),
    ]
    for mine, peer in pairs:
        mine.double()
        peer.double()
        mine.load_state_dict({name: tensor.numpy() for name, tensor in peer.state_dict().items()})
        same_on_pytorch(torch, mine, peer, [x], rtol=1e-11)


def test_layers_keep_float32():
    x = mg.randn(2, 3, 4, requires_grad=True)
    layers = [
        nn.Linear(4, 4),
        nn.LayerNorm(4),
        nn.Dropout(0.3),
        nn.GELU(),
        nn.SiLU(),
        nn.Softplus(),
        nn.Softmax(-1),
    ]
    for layer in layers:
        y = layer(x)
        assert y.dtype == mg.float32
        y.backward(mg.randn(*y.shape))
        assert all(p.grad.dtype == mg.float32 for p in [x, *layer.parameters()])


def test_an_embedding_from_a_table_shares_it():
    table = mg.arange(6.0).reshape(3, 2)
    layer = nn.Embedding.from_pretrained(table)
    assert layer(mg.tensor([2])).tolist() == [[4, 5]]
    assert not layer.weight.requires_grad
    assert repr(layer) == "Embedding(3, 2)"
    assert np.shares_memory(layer.weight.numpy(), table.numpy())


def test_wrong_inputs_of_layers_are_named():
    with pytest.raises(RuntimeError, match=r"\(2, 4\)"):
        nn.Linear(3, 2)(mg.ones(2, 4))
    with pytest.raises(RuntimeError, match=r"\(2, 4\)"):
        nn.LayerNorm(3)(mg.ones(2, 4))
    with pytest.raises(IndexError, match="index 7"):
        nn.Embedding(5, 2)(mg.tensor([1, 7]))
    with pytest.raises(RuntimeError, match="float32"):
        nn.Embedding(5, 2)(mg.tensor([1.0]))
    with pytest.raises(ValueError, match="padding_idx 9"):
        nn.Embedding(5, 2, padding_idx=9)
    with pytest.raises(ValueError, match=r"1\.5"):
        nn.Dropout(1.5)
    with pytest.raises(ValueError, match="average"):
        nn.MSELoss(reduction="average")
    with pytest.raises(RuntimeError, match="floating tensor, not int64"):
        nn.Dropout(0.5)(mg.tensor([1, 2]))
    with pytest.raises(ValueError, match=r"table \(V, d\), not of shape \(3,\)"):
        nn.Embedding.from_pretrained(mg.zeros(3))
    with pytest.raises(RuntimeError, match="beta must be at least 0, not -1"):
        nn.SmoothL1Loss(beta=-1)(mg.zeros(3), mg.zeros(3))
    for train in (True, False):
        with pytest.raises(RuntimeError):
            nn.BatchNorm1d(5).train(train)(mg.zeros(3, 4))


def test_a_small_net_learns_xor():
    mg.manual_seed(0)
    x = mg.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    y = mg.tensor([0, 1, 1, 0])
    net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
    optimizer = mg.optim.Adam(net.parameters(), lr=0.05)
    for _ in range(150):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05
    assert mg.equal(net(x).argmax(1), y)
