"""Modules, functions, initial values and clipping: as a user meets them, and against PyTorch where it is there."""

import copy
import inspect
import math

import numpy as np
import pytest

import minigrad as mg
import minigrad.nn.functional as F
from minigrad import nn


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")


def randn(*shape, seed=0, requires_grad=True):
    return mg.tensor(np.random.default_rng(seed).standard_normal(shape), requires_grad=requires_grad)


def run_both(torch, ours, theirs, inputs, rtol=1e-12):
    """Compare the values and gradients of two functions of float64 arrays, with random cotangents."""
    mine = [mg.tensor(x, requires_grad=True) for x in inputs]
    peers = [torch.tensor(x, requires_grad=True) for x in inputs]
    y, z = ours(*mine), theirs(*peers)
    assert y.shape == tuple(z.shape)
    np.testing.assert_allclose(y.detach().numpy(), z.detach().numpy(), rtol=rtol, atol=1e-13)
    g = np.random.default_rng(1).standard_normal(y.shape)
    y.backward(mg.tensor(g))
    z.backward(torch.tensor(g))
    for x, peer in zip(mine, peers, strict=True):
        np.testing.assert_allclose(x.grad.numpy(), peer.grad.numpy(), rtol=rtol, atol=1e-13)


# --- Parameter ----------------------------------------------------------------------------------------------


def test_a_parameter_is_a_leaf_that_requires_its_gradient():
    w = nn.Parameter(mg.ones(2))
    assert w.requires_grad
    assert w.is_leaf
    assert type(w + 1) is mg.Tensor
    assert type(w.detach()) is mg.Tensor
    assert repr(w) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    assert not nn.Parameter(mg.ones(2), requires_grad=False).requires_grad


def test_a_parameter_shares_memory_and_takes_attributes():
    data = mg.zeros(2)
    w = nn.Parameter(data)
    w.decay = False
    data += 1
    assert w.tolist() == [1, 1]
    twin = copy.deepcopy(w)
    assert isinstance(twin, nn.Parameter)
    assert twin.decay is False
    data += 1
    assert twin.tolist() == [1, 1]


def test_a_parameter_of_something_else_is_refused():
    with pytest.raises(TypeError, match="list"):
        nn.Parameter([1.0])
    with pytest.raises(RuntimeError, match="int64"):
        nn.Parameter(mg.tensor([1]))


# --- Module -------------------------------------------------------------------------------------------------


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(mg.ones(3))
        self.linear = nn.Linear(3, 3)
        self.register_buffer("table", mg.arange(3.0))
        self.register_buffer("cache", mg.zeros(3), persistent=False)

    def forward(self, x):
        return self.linear(x * self.scale) + self.table


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5, 3)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(3, 5, bias=False)
        self.head.weight = self.embed.weight  # tied

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def test_members_are_found_by_name_and_in_order():
    net = Net()
    block = ["scale", "linear.weight", "linear.bias"]
    names = ["embed.weight"] + [f"blocks.{i}.{name}" for i in range(2) for name in block]
    assert [name for name, _ in net.named_parameters()] == names
    assert [id(p) for p in net.parameters()] == [id(p) for _, p in net.named_parameters()]
    assert [name for name, _ in net.named_parameters(remove_duplicate=False)] == [*names, "head.weight"]
    assert [name for name, _ in net.blocks[0].named_parameters("p", recurse=False)] == ["p.scale"]
    assert [name for name, _ in net.named_buffers()] == [
        "blocks.0.table",
        "blocks.0.cache",
        "blocks.1.table",
        "blocks.1.cache",
    ]
    assert [name for name, _ in net.named_children()] == ["embed", "blocks", "head"]
    assert [name for name, _ in net.named_modules()][:3] == ["", "embed", "blocks"]
    assert len(list(net.modules())) == 8


def test_members_match_pytorch(torch):
    class Peer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(2, 3)
            self.b = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2))
            self.b.extra = self.a
            self.register_buffer("n", torch.zeros(1))
            self.a.weight = self.b[0].weight

    class Mine(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(2, 3)
            self.b = nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2))
            self.b.extra = self.a
            self.register_buffer("n", mg.zeros(1))
            self.a.weight = self.b[0].weight

    mine, peer = Mine(), Peer()
    for listing in ("named_parameters", "named_buffers", "named_modules", "named_children"):
        assert [k for k, _ in getattr(mine, listing)()] == [k for k, _ in getattr(peer, listing)()]
    assert sorted(mine.state_dict()) == sorted(peer.state_dict())


def test_assignment_registers_replaces_and_deletes():
    module = nn.Module()
    module.x = nn.Parameter(mg.ones(1))
    module.x = nn.Parameter(mg.zeros(1))
    assert [p.tolist() for p in module.parameters()] == [[0.0]]
    module.x = None
    assert module.x is None
    assert list(module.parameters()) == []
    del module.x
    with pytest.raises(AttributeError, match="'Module' object has no attribute 'x'"):
        module.x  # noqa: B018
    module.x = nn.ReLU()
    module.x = nn.Parameter(mg.ones(1))  # from one kind to another
    assert list(module.children()) == []
    module.register_buffer("mean", mg.zeros(1))
    module.mean = mg.ones(1)
    assert module.state_dict()["mean"].tolist() == [1]
    assert "mean" in dir(module)


def test_wrong_assignments_are_refused():
    module = nn.Linear(2, 2)
    with pytest.raises(TypeError, match="cannot assign Tensor as parameter 'weight'"):
        module.weight = mg.ones(2, 2)
    with pytest.raises(KeyError, match="dot"):
        module.register_parameter("a.b", nn.Parameter(mg.ones(1)))
    with pytest.raises(KeyError, match="already has an attribute 'forward'"):
        module.register_buffer("forward", mg.ones(1))
    with pytest.raises(TypeError, match="int"):
        module.register_buffer("n", 3)
    with pytest.raises(TypeError, match="Tensor"):
        module.add_module("m", mg.ones(1))

    class Early(nn.Module):
        def __init__(self):
            self.w = nn.Parameter(mg.ones(1))

    with pytest.raises(AttributeError, match="super"):
        Early()
    with pytest.raises(NotImplementedError, match="forward"):
        nn.Module()(1)


def test_a_tied_weight_is_one_parameter_and_gets_both_gradients():
    net = Net()
    assert net.head.weight is net.embed.weight
    assert sum(p is net.embed.weight for p in net.parameters()) == 1
    net(mg.tensor([0, 1])).sum().backward()
    tied = net.embed.weight.grad.numpy().copy()
    rows = [2, 3, 4]  # never looked up: what they have comes from the head
    assert np.all(tied[rows] == tied[2])
    assert np.any(tied[rows] != 0)
    assert np.any(tied[0] != tied[2])


def test_state_goes_from_one_module_to_another():
    source, target = Net(), Net()
    state = source.state_dict()
    assert "head.weight" in state
    assert "blocks.0.table" in state
    assert "blocks.0.cache" not in state
    assert not any(tensor.requires_grad for tensor in state.values())
    assert np.shares_memory(state["embed.weight"].numpy(), source.embed.weight.detach().numpy())
    keys = target.load_state_dict({name: tensor.double() for name, tensor in state.items()})
    assert keys.missing_keys == []
    assert keys.unexpected_keys == []
    assert target.head.weight is target.embed.weight
    assert target.embed.weight.dtype == mg.float32
    ids = mg.tensor([[1, 2], [3, 4]])
    assert mg.equal(source(ids), target(ids))
    assert set(source.state_dict(prefix="model.")) == {f"model.{name}" for name in state}


def test_a_state_that_does_not_fit_changes_nothing():
    net = Net()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    state = {name: tensor + 1 for name, tensor in before.items()}
    state["wrong"] = state.pop("blocks.0.scale")
    state["blocks.1.linear.weight"] = mg.zeros(2, 3)
    with pytest.raises(RuntimeError) as caught:
        net.load_state_dict(state)
    for part in (
        "Error(s) in loading state_dict for Net:",
        'Missing key(s) in state_dict: "blocks.0.scale".',
        'Unexpected key(s) in state_dict: "wrong".',
        "size mismatch for blocks.1.linear.weight",
        "(2, 3)",
        "(3, 3)",
    ):
        assert part in str(caught.value)
    assert all(mg.equal(tensor, before[name]) for name, tensor in net.state_dict().items())
    with pytest.raises(TypeError, match="mapping"):
        net.load_state_dict([1])
    with pytest.raises(TypeError, match=r"float for 'embed.weight'"):
        net.load_state_dict({**before, "embed.weight": 1.0})


def test_a_part_of_a_state_loads_when_not_strict():
    net = nn.Linear(2, 1)
    keys = net.load_state_dict({"weight": mg.full((1, 2), 7.0), "more": mg.ones(1)}, strict=False)
    assert keys == (["bias"], ["more"])
    assert net.weight.tolist() == [[7, 7]]


def test_loading_a_state_between_forward_and_backward_is_noticed():
    net = nn.Linear(2, 1)
    x = mg.ones(1, 2, requires_grad=True)
    y = net(x).sum()
    net.load_state_dict(net.state_dict())
    with pytest.raises(RuntimeError, match="modified in place"):
        y.backward()


def test_modes_and_frozen_parameters():
    net = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    assert net.training
    assert net.eval() is net
    assert not net[1].training
    assert net.train()[1].training
    with pytest.raises(ValueError, match="None"):
        net.train(None)
    net.requires_grad_(False)
    assert not net(mg.ones(1, 2)).requires_grad


def test_gradients_are_forgotten_or_zeroed():
    net = nn.Linear(2, 1)
    net(mg.ones(1, 2)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert net.weight.grad.tolist() == [[0, 0]]
    net.zero_grad()
    assert net.weight.grad is None


def test_a_change_of_dtype_keeps_parameters_and_ties():
    net = Net()
    weight = net.embed.weight
    net.embed.register_buffer("ids", mg.arange(3))
    assert net.double() is net
    assert net.embed.weight is weight
    assert net.head.weight is weight
    assert weight.dtype == mg.float64
    assert net.embed.ids.dtype == mg.int64
    assert net.blocks[0].table.dtype == mg.float64
    assert net(mg.tensor([1])).dtype == mg.float64
    assert net.float().to("cpu").head.weight.dtype == mg.float32
    with pytest.raises(RuntimeError, match="cuda"):
        net.to("cuda")
    with pytest.raises(TypeError, match="int64"):
        net.to(mg.int64)


def test_a_deep_copy_is_apart_and_keeps_ties():
    net = Net()
    twin = copy.deepcopy(net)
    assert twin.head.weight is twin.embed.weight
    assert twin.embed.weight is not net.embed.weight
    with mg.no_grad():
        twin.embed.weight += 1
    assert not mg.equal(twin.embed.weight, net.embed.weight)
    assert len(list(twin.parameters())) == len(list(net.parameters()))


def test_apply_visits_children_first():
    names = []
    net = nn.Sequential(nn.Sequential(nn.ReLU()), nn.Tanh())
    assert net.apply(lambda module: names.append(type(module).__name__)) is net
    assert names == ["ReLU", "Sequential", "Tanh", "Sequential"]


def test_a_forward_hook_sees_and_replaces_the_output():
    layer, seen = nn.Identity(), []
    handle = layer.register_forward_hook(lambda module, args, out: seen.append((module, args, out)))
    x = mg.ones(1)
    assert layer(x) is x
    assert seen[0][0] is layer
    assert seen[0][1] == (x,)
    handle.remove()
    layer.register_forward_hook(lambda module, args, out: out * 2)
    assert layer(x).item() == 2
    assert len(seen) == 1


def test_the_display_is_pytorchs(torch):
    def build(n):
        return n.Sequential(
            n.Linear(2, 3, bias=False),
            n.ModuleList([n.ReLU(), n.ReLU(), n.Tanh()]),
            n.ModuleDict({"norm": n.Identity(), "drop": n.Dropout(0.1), "gelu": n.GELU("tanh")}),
            n.Sequential(n.Embedding(3, 2, padding_idx=0), n.Flatten(), n.Softmax(dim=1)),
            n.CrossEntropyLoss(),
            n.Sequential(),
        )

    assert repr(build(nn)) == repr(build(torch.nn))
    assert repr(nn.LayerNorm(3)) == "LayerNorm((3,), eps=1e-05, elementwise_affine=True, bias=True)"


# --- containers ---------------------------------------------------------------------------------------------


def test_sequential_is_a_chain_and_a_list():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU()).append(nn.Linear(3, 1))
    assert len(net) == 3
    assert [type(module).__name__ for module in net] == ["Linear", "ReLU", "Linear"]
    assert net[-1] is net[2]
    assert isinstance(net[:2], nn.Sequential)
    assert net[:2][0] is net[0]
    assert net(mg.ones(4, 2)).shape == (4, 1)
    net[1] = nn.Tanh()
    assert isinstance(net[1], nn.Tanh)
    del net[0]
    assert list(dict(net.named_children())) == ["0", "1"]
    with pytest.raises(IndexError, match="index 5 is out of range for Sequential of 2 modules"):
        net[5]
    with pytest.raises(TypeError, match="int"):
        nn.Sequential(3)
    named = nn.Sequential({"first": nn.Linear(1, 1), "second": nn.ReLU()})
    assert [name for name, _ in named.named_parameters()] == ["first.weight", "first.bias"]
    assert list(dict(named[1:].named_children())) == ["second"]


def test_module_list_registers_what_it_holds():
    layers = nn.ModuleList([nn.Linear(1, 1)])
    layers.extend([nn.ReLU(), nn.Tanh()])
    layers.insert(1, nn.Sigmoid())
    assert [type(layer).__name__ for layer in layers] == ["Linear", "Sigmoid", "ReLU", "Tanh"]
    assert isinstance(layers[1:3], nn.ModuleList)
    assert [name for name, _ in layers.named_parameters()] == ["0.weight", "0.bias"]


def test_module_dict_registers_what_it_holds():
    layers = nn.ModuleDict({"a": nn.Linear(1, 1)})
    layers["b"] = nn.ReLU()
    layers.update({"c": nn.Tanh()})
    assert list(layers) == list(layers.keys()) == ["a", "b", "c"]
    assert "b" in layers
    assert len(layers) == 3
    assert isinstance(layers.pop("b"), nn.ReLU)
    assert [name for name, _ in layers.items()] == ["a", "c"]
    assert [name for name, _ in layers.named_parameters()] == ["a.weight", "a.bias"]


# --- layers -------------------------------------------------------------------------------------------------


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
        run_both(torch, mine, peer, [x], rtol=1e-11)


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
        y.sum().backward()
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


# --- every function against finite differences, to the second order -----------------------------------------

# Ordinary arguments, away from kinks; a function of none of these names fails the test below.
target = mg.tensor([1, 0, -100, 3])
probabilities = mg.tensor(np.random.default_rng(5).dirichlet(np.ones(4), 4), requires_grad=True)
weights = mg.tensor([0.5, 1.0, 2.0, 0.25], dtype=mg.float64)
mask = mg.tensor([[True, False, True], [False, False, False], [True, True, True], [True, True, False]])
qkv = [randn(2, 4, 3, seed=1), randn(2, 3, 3, seed=2), randn(2, 3, 2, seed=3)]
CASES = {
    "relu": [(F.relu, randn(5))],
    "gelu": [(F.gelu, randn(5)), (lambda x: F.gelu(x, "tanh"), randn(5))],
    "leaky_relu": [(F.leaky_relu, randn(5)), (lambda x: F.leaky_relu(x, 0.2), randn(5))],
    "elu": [(F.elu, randn(5)), (lambda x: F.elu(x, 0.5), randn(5))],
    "tanh": [(F.tanh, randn(5))],
    "sigmoid": [(F.sigmoid, randn(5))],
    "silu": [(F.silu, randn(5))],
    "softplus": [(F.softplus, randn(5)), (F.softplus, mg.zeros(1, dtype=mg.float64, requires_grad=True))],
    "logsigmoid": [(F.logsigmoid, randn(5))],
    "softmax": [(lambda x: F.softmax(x, dim=0), randn(3, 2))],
    "log_softmax": [(lambda x: F.log_softmax(x, dim=1), randn(3, 2))],
    "linear": [(F.linear, randn(2, 3), randn(2, 3, seed=1), randn(2, seed=2)), (F.linear, randn(3), randn(2, 3))],
    "embedding": [
        (lambda w: F.embedding(mg.tensor([[0, 2], [2, 1]]), w), randn(3, 2)),
    ],
    "layer_norm": [
        (lambda x, w, b: F.layer_norm(x, (3,), w, b), randn(2, 3), randn(3, seed=1), randn(3, seed=2)),
        (lambda x: F.layer_norm(x, (2, 3), eps=0.1), randn(2, 2, 3)),
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
            mg.rand(4, dtype=mg.float64, requires_grad=True),
        )
    ],
    "smooth_l1_loss": [
        (F.smooth_l1_loss, randn(3, 2), randn(3, 2, seed=1)),
        (lambda x, y: F.smooth_l1_loss(x, y, "sum", 0.5), randn(3, 2), randn(3, 2, seed=1)),
    ],
    "mse_loss": [(F.mse_loss, randn(3, 2), randn(3, 2, seed=1))],
    "l1_loss": [(F.l1_loss, randn(3, 2), randn(3, 2, seed=1))],
    "binary_cross_entropy_with_logits": [
        (F.binary_cross_entropy_with_logits, randn(4), mg.rand(4, dtype=mg.float64, requires_grad=True)),
        (
            lambda x, y: F.binary_cross_entropy_with_logits(x, y, weights, "sum", weights),
            randn(4),
            mg.rand(4, dtype=mg.float64, requires_grad=True),
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
    assert {*CASES, *UNCHECKED} == set(F.__all__)


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_both_orders(name):
    for function, *inputs in CASES[name]:
        assert mg.autograd.gradcheck(function, inputs)
        # The differences of the second derivative see the kink of |x| and of relu nowhere near these inputs.
        assert mg.autograd.gradgradcheck(function, inputs, rtol=1e-6)


# --- functions ----------------------------------------------------------------------------------------------


def test_softplus_is_exact_at_both_ends():
    x = mg.tensor([-800.0, -40.0, 0.0, 40.0, 800.0], dtype=mg.float64, requires_grad=True)
    y = F.softplus(x)
    assert y.tolist() == pytest.approx([0, math.exp(-40), math.log(2), 40, 800], rel=1e-14)
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx([0, math.exp(-40), 0.5, 1, 1], rel=1e-14)


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
    y.sum().backward()
    assert w.grad.tolist() == [[1, 1], [0, 0], [1, 1]]


def test_dropout_drops_and_scales():
    mg.manual_seed(0)
    x = mg.ones(200, 100, requires_grad=True)
    y = F.dropout(x, 0.25)
    values = np.unique(y.detach().numpy())
    assert values.tolist() == pytest.approx([0, 4 / 3])
    assert y.mean().item() == pytest.approx(1, abs=0.01)
    y.sum().backward()
    assert mg.equal(x.grad, y)  # of ones, the mask is both
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


# --- attention ----------------------------------------------------------------------------------------------


def attention_arrays(seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape) for shape in ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6))]


def test_attention_matches_pytorch(torch):
    peer = torch.nn.functional.scaled_dot_product_attention
    arrays = attention_arrays()
    allowed = np.random.default_rng(1).random((2, 1, 5, 7)) < 0.6
    allowed[..., 0] = True
    added = np.random.default_rng(2).standard_normal((5, 7))
    run_both(torch, F.scaled_dot_product_attention, peer, arrays)
    for options in ({"is_causal": True}, {"scale": 0.2}, {"is_causal": True, "scale": 2.0}):
        run_both(
            torch,
            lambda *x, o=options: F.scaled_dot_product_attention(*x, **o),
            lambda *x, o=options: peer(*x, **o),
            arrays,
        )
    for given in (allowed, added):
        run_both(
            torch,
            lambda *x, m=given: F.scaled_dot_product_attention(*x, mg.tensor(m)),
            lambda *x, m=given: peer(*x, torch.tensor(m)),
            arrays,
        )
    run_both(torch, F.scaled_dot_product_attention, peer, [*arrays, added])  # the mask learns too


def test_a_query_that_sees_nothing_gets_zeros():
    q, k, v = (mg.tensor(x, requires_grad=True) for x in attention_arrays())
    allowed = np.ones((5, 7), dtype=bool)
    allowed[2] = False
    out = F.scaled_dot_product_attention(q, k, v, mg.tensor(allowed))
    assert out[:, :, 2].abs().sum().item() == 0
    out.sum().backward()
    assert q.grad[:, :, 2].abs().sum().item() == 0
    assert all(np.isfinite(x.grad.numpy()).all() for x in (q, k, v))


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


# --- losses -------------------------------------------------------------------------------------------------


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
            run_both(
                torch,
                lambda x, t=expected, o=options: F.cross_entropy(
                    x, mg.tensor(t), None if weight is None else mg.tensor(weight), **o
                ),
                lambda x, t=expected, o=options: torch.nn.functional.cross_entropy(
                    x, torch.tensor(t), None if weight is None else torch.tensor(weight), **o
                ),
                [logits],
            )
        run_both(
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
            run_both(
                torch,
                lambda x, y, f=mine, r=reduction: f(x, y, reduction=r),
                lambda x, y, f=theirs, r=reduction: f(x, y, reduction=r),
                [x, y],
            )
        run_both(
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


@pytest.mark.parametrize("weight", [None, weights])
def test_if_every_target_is_ignored_the_loss_is_zero(weight):
    for reduction in ("mean", "sum"):
        x = randn(2, 4)
        loss = F.cross_entropy(x, mg.tensor([-100, -100]), weight, reduction=reduction)
        loss.backward()
        assert loss.item() == 0
        assert x.grad.tolist() == [[0] * 4] * 2


def test_cross_entropy_is_exact_for_huge_logits():
    x = mg.tensor([[1000.0, 0.0, -1000.0]], requires_grad=True)
    loss = F.cross_entropy(x, mg.tensor([2]))
    assert loss.item() == 2000
    loss.backward()
    assert x.grad.tolist() == [[1, 0, -1]]
    assert loss.dtype == mg.float32


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


# --- initial values -----------------------------------------------------------------------------------------


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


# --- clipping -----------------------------------------------------------------------------------------------


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
    vector.sum().backward()
    assert net.weight.grad.tolist() == [[1, 1]] * 3
    nn.utils.vector_to_parameters(mg.arange(9.0), net.parameters())
    assert net.bias.tolist() == [6, 7, 8]
    with pytest.raises(ValueError, match=r"9 elements.*\(8,\)"):
        nn.utils.vector_to_parameters(mg.zeros(8), net.parameters())


# --- all together -------------------------------------------------------------------------------------------


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


def test_public_names_are_documented():
    for name in nn.__all__:
        assert inspect.getdoc(getattr(nn, name)), name
    for name in F.__all__:
        assert inspect.getdoc(getattr(F, name)), name
