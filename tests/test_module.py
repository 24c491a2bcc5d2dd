"""Modules and what they hold: parameters, submodules, states, hooks, containers."""

import copy

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn


def randn(*shape, seed=0, requires_grad=True):
    return mg.tensor(np.random.default_rng(seed).standard_normal(shape), requires_grad=requires_grad)


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
