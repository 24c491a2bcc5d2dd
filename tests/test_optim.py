"""Optimizers and schedules: by their formulas, by PyTorch where it is there, and by resuming exactly."""

import math

import numpy as np
import pytest

import minigrad as mg
from minigrad.optim import SGD, Adam, AdamW, Optimizer
from minigrad.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LinearLR, StepLR

SHAPES = [(4, 3), (5,), ()]


def leaves(dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    return [mg.tensor(rng.standard_normal(s).astype(dtype), requires_grad=True) for s in SHAPES]


def loss_of(tensors):
    """Not quadratic, and with gradients of very different sizes."""
    return sum((10.0**i) * (x.sin() + 0.1 * x * x).sum() for i, x in enumerate(tensors))


def train(optimizer, tensors, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(tensors).backward()
        optimizer.step()


OPTIONS = [
    ("SGD", {"lr": 1e-3}),
    ("SGD", {"lr": 1e-3, "weight_decay": 0.1}),
    ("SGD", {"lr": 1e-3, "momentum": 0.9}),
    ("SGD", {"lr": 1e-3, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
    ("SGD", {"lr": 1e-3, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("SGD", {"lr": 1e-4, "momentum": 0.5, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"lr": 0.05, "betas": (0.8, 0.9), "eps": 1e-3}),
    ("Adam", {"lr": 0.05, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.05, "amsgrad": True}),
    ("Adam", {"lr": 0.05, "betas": (0.0, 0.0)}),
    ("Adam", {"lr": 0.01, "maximize": True, "weight_decay": 0.1}),
    ("AdamW", {}),
    ("AdamW", {"lr": 0.05, "weight_decay": 0.3, "amsgrad": True}),
    ("AdamW", {"lr": 0.01, "weight_decay": 0.3, "maximize": True}),
]


@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_twenty_steps_match_pytorch(torch, name, options):
    mine = leaves()
    peers = [torch.tensor(x.detach().numpy().copy(), requires_grad=True) for x in mine]
    ours = getattr(mg.optim, name)(mine, **options)
    theirs = getattr(torch.optim, name)(peers, **options)
    train(ours, mine, 20)
    train(theirs, peers, 20)
    for x, peer in zip(mine, peers, strict=True):
        np.testing.assert_allclose(x.detach().numpy(), peer.detach().numpy(), rtol=1e-12, atol=1e-12)
    options = [{k: v for k, v in group.items() if k in OPTION_NAMES} for group in theirs.param_groups]
    assert [{k: v for k, v in group.items() if k in OPTION_NAMES} for group in ours.param_groups] == options


OPTION_NAMES = {"lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize", "betas", "eps", "amsgrad"}


@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_a_run_resumed_from_a_file_is_the_same_run(tmp_path, name, options):
    straight, interrupted = leaves(np.float32), leaves(np.float32)
    whole = getattr(mg.optim, name)(straight, **options)
    train(whole, straight, 7)
    first = getattr(mg.optim, name)(interrupted, **options)
    train(first, interrupted, 3)
    mg.save({"parameters": interrupted, "optimizer": first.state_dict()}, tmp_path / "run.safetensors")

    saved = mg.load(tmp_path / "run.safetensors")
    resumed = [x.requires_grad_() for x in saved["parameters"]]
    second = getattr(mg.optim, name)(resumed, lr=123.0)
    second.load_state_dict(saved["optimizer"])
    train(second, resumed, 4)
    for x, y in zip(straight, resumed, strict=True):
        assert mg.equal(x, y)


def test_a_state_of_pytorchs_adam_goes_on_here(torch):
    peers = [torch.tensor(x.detach().numpy().copy(), requires_grad=True) for x in leaves()]
    theirs = torch.optim.AdamW(peers, lr=0.05)
    train(theirs, peers, 3)
    mine = [mg.tensor(peer.detach().numpy(), requires_grad=True) for peer in peers]
    ours = AdamW(mine, lr=1.0)
    state = theirs.state_dict()
    state["state"] = {
        number: {name: mg.tensor(value.numpy()) for name, value in entry.items()}
        for number, entry in state["state"].items()
    }
    ours.load_state_dict(state)
    train(theirs, peers, 5)
    train(ours, mine, 5)
    for x, peer in zip(mine, peers, strict=True):
        np.testing.assert_allclose(x.detach().numpy(), peer.detach().numpy(), rtol=1e-12)


@pytest.mark.parametrize("make", [lambda p: SGD(p, momentum=0.9), Adam, lambda p: AdamW(p, amsgrad=True)])
def test_a_step_writes_in_place_and_keeps_float32(make):
    tensors = leaves(np.float32)
    memory = [x.detach().numpy() for x in tensors]
    versions = [x._version[0] for x in tensors]
    before = [array.copy() for array in memory]
    optimizer = make(tensors)
    optimizer.param_groups[0]["lr"] = np.float64(0.1)  # must not widen anything
    train(optimizer, tensors, 2)
    for x, array, old, version in zip(tensors, memory, before, versions, strict=True):
        assert np.shares_memory(x.detach().numpy(), array)
        assert x.dtype == mg.float32
        assert x._version[0] == version + 2
        assert x.is_leaf
        assert not np.array_equal(array, old)
    for state in optimizer.state_dict()["state"].values():
        assert all(value.dtype == mg.float32 for value in state.values() if isinstance(value, mg.Tensor))


def test_a_step_between_forward_and_backward_is_noticed():
    x = mg.ones(2, requires_grad=True)
    x.grad = mg.ones(2)
    loss = (x * x).sum()
    SGD([x], lr=0.1).step()
    with pytest.raises(RuntimeError, match="modified in place"):
        loss.backward()


def test_transposed_parameters_are_stepped_too():
    data = np.arange(6.0).reshape(2, 3).T
    x = mg.from_numpy(data).requires_grad_()
    plain = mg.tensor(data, requires_grad=True)
    for tensor in (x, plain):
        optimizer = AdamW([tensor], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            (tensor**3).sum().backward()
            optimizer.step()
    assert mg.equal(x, plain)
    assert np.shares_memory(x.detach().numpy(), data)


def test_parameters_without_a_gradient_stay():
    x, y = mg.ones(2, requires_grad=True), mg.ones(2, requires_grad=True)
    optimizer = Adam([x, y], lr=0.1)
    x.sum().backward()
    optimizer.step()
    assert y.tolist() == [1, 1]
    assert list(optimizer.state_dict()["state"]) == [0]


def test_groups_have_their_own_options():
    x, y, z = (mg.ones(1, requires_grad=True) for _ in range(3))
    optimizer = SGD([{"params": [x]}, {"params": y, "lr": 0.5}], lr=0.25)
    optimizer.add_param_group({"params": [z], "lr": 0.0})
    (x + y + z).sum().backward()
    optimizer.step()
    assert [x.item(), y.item(), z.item()] == [0.75, 0.5, 1.0]
    assert [group["params"] for group in optimizer.state_dict()["param_groups"]] == [[0], [1], [2]]
    assert "lr: 0.5" in repr(optimizer)


def test_a_generator_of_parameters_and_a_closure():
    net = mg.nn.Linear(2, 1)
    optimizer = SGD(net.parameters(), lr=0.1)
    calls = []

    def closure():
        optimizer.zero_grad()
        loss = net(mg.ones(1, 2)).sum()
        loss.backward()
        calls.append(loss.item())
        return loss

    with mg.no_grad():
        loss = optimizer.step(closure)
    assert loss.item() == calls[0]
    assert net(mg.ones(1, 2)).item() == pytest.approx(calls[0] - 0.3)
    assert SGD([mg.ones(1, requires_grad=True)]).step() is None


def test_gradients_are_forgotten_or_zeroed():
    x = mg.ones(2, requires_grad=True)
    x.sum().backward()
    optimizer = SGD([x])
    optimizer.zero_grad(set_to_none=False)
    assert x.grad.tolist() == [0, 0]
    optimizer.zero_grad()
    assert x.grad is None


def test_an_overflowing_gradient_is_a_value_and_not_a_warning():
    x = mg.ones(2, requires_grad=True)
    x.grad = mg.tensor([math.inf, 1e30])
    Adam([x]).step()
    assert math.isnan(x[0].item())


def test_wrong_parameters_are_refused():
    x = mg.ones(1, requires_grad=True)
    with pytest.raises(ValueError, match="empty"):
        SGD([])
    with pytest.raises(TypeError, match="one Tensor"):
        SGD(x)
    with pytest.raises(TypeError, match="float"):
        SGD([1.0])
    with pytest.raises(TypeError, match="tuple"):
        SGD(mg.nn.Linear(1, 1).named_parameters())
    with pytest.raises(TypeError, match="set"):
        SGD([{"params": {x}}])
    with pytest.raises(ValueError, match="computed from others"):
        SGD([x * 2])
    with pytest.raises(ValueError, match="more than one group"):
        SGD([{"params": [x]}, {"params": [x]}])
    with pytest.warns(UserWarning, match="twice"):
        SGD([x, x])
    x.sum().backward()
    with pytest.raises(NotImplementedError, match="update"):
        Optimizer([x], {}).step()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: SGD(p, lr=-1), "lr must be at least 0, not -1"),
        (lambda p: SGD(p, lr=math.nan), "nan"),
        (lambda p: SGD(p, momentum=-0.5), r"momentum .* -0\.5"),
        (lambda p: SGD(p, weight_decay=-2), "weight_decay .* -2"),
        (lambda p: SGD(p, nesterov=True), "nesterov"),
        (lambda p: SGD(p, momentum=0.9, dampening=0.1, nesterov=True), "nesterov"),
        (lambda p: Adam(p, lr=-1), "lr"),
        (lambda p: Adam(p, eps=-1), "eps"),
        (lambda p: Adam(p, betas=(1.0, 0.9)), r"betas\[0\] .* 1\.0"),
        (lambda p: AdamW(p, betas=(0.9, -0.1)), r"betas\[1\] .* -0\.1"),
        (lambda p: AdamW(p, weight_decay=-1), "weight_decay"),
        (lambda p: SGD([{"params": p, "lr": -3}]), "-3"),
    ],
)
def test_wrong_options_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make([mg.ones(1, requires_grad=True)])


def test_a_state_that_does_not_fit_changes_nothing():
    tensors = leaves()
    optimizer = Adam(tensors, lr=0.1)
    train(optimizer, tensors, 2)
    state = optimizer.state_dict()
    groups, entries = state["param_groups"], state["state"]
    wrong_shape = {**entries, 0: {**entries[0], "exp_avg": mg.zeros(2)}}
    for wrong, message in (
        ({"param_groups": groups}, "state_dict"),
        ({"state": entries, "param_groups": groups * 2}, "2 parameter groups"),
        ({"state": entries, "param_groups": [{**groups[0], "params": [0]}]}, "1 parameters"),
        ({"state": wrong_shape, "param_groups": groups}, r"'exp_avg' of shape \(2,\)"),
        ({"state": {"0": entries[0]}, "param_groups": groups}, "'0'"),
        ({"state": entries, "param_groups": [{**groups[0], "lr": -1.0}]}, r"-1\.0"),
    ):
        with pytest.raises(ValueError, match=message):
            optimizer.load_state_dict(wrong)
    assert optimizer.param_groups[0]["lr"] == 0.1
    assert mg.equal(optimizer.state_dict()["state"][0]["exp_avg"], entries[0]["exp_avg"])


def test_a_loaded_state_is_a_copy():
    a, b = leaves(), leaves()
    first, second = Adam(a), Adam(b)
    train(first, a, 2)
    second.load_state_dict(first.state_dict())
    before = first.state_dict()["state"][0]["exp_avg"].clone()
    train(second, b, 2)
    assert mg.equal(first.state_dict()["state"][0]["exp_avg"], before)


# --- schedules ----------------------------------------------------------------------------------------------


def warmup(step):
    return min(1.0, (step + 1) / 4) / math.sqrt(1 + step)


SCHEDULES = {
    "LambdaLR": [{"lr_lambda": warmup}, {"lr_lambda": [warmup, lambda step: 0.9**step]}],
    "CosineAnnealingLR": [{"T_max": 7}, {"T_max": 5, "eta_min": 0.01}, {"T_max": 1}],
    "StepLR": [{"step_size": 3}, {"step_size": 1, "gamma": 0.5}],
    "LinearLR": [{}, {"start_factor": 0.1, "end_factor": 0.5, "total_iters": 4}, {"total_iters": 0}],
}


def two_groups(module, ones):
    x, y = ones(1, requires_grad=True), ones(1, requires_grad=True)
    return module.SGD([{"params": [x]}, {"params": [y], "lr": 0.5}], lr=0.1)


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_match_pytorch(torch, name):
    for options in SCHEDULES[name]:
        ours = two_groups(mg.optim, mg.ones)
        theirs = two_groups(torch.optim, torch.ones)
        mine = getattr(mg.optim.lr_scheduler, name)(ours, **options)
        peer = getattr(torch.optim.lr_scheduler, name)(theirs, **options)
        for _ in range(18):
            assert mine.get_last_lr() == pytest.approx(peer.get_last_lr(), rel=1e-12, abs=1e-15)
            assert mine.last_epoch == peer.last_epoch
            assert [group["lr"] for group in ours.param_groups] == mine.get_last_lr()
            for optimizer, schedule in ((ours, mine), (theirs, peer)):
                optimizer.step()
                schedule.step()


def test_schedules_act_together_as_in_pytorch(torch):
    rates = []
    for optim, ones in ((mg.optim, mg.ones), (torch.optim, torch.ones)):
        optimizer = two_groups(optim, ones)
        schedules = [
            optim.lr_scheduler.LinearLR(optimizer, total_iters=3),
            optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=6, eta_min=0.001),
            optim.lr_scheduler.StepLR(optimizer, 4),
        ]
        seen = []
        for _ in range(15):
            optimizer.step()
            for schedule in schedules:
                schedule.step()
            seen.append([group["lr"] for group in optimizer.param_groups])
        rates.append(seen)
    np.testing.assert_allclose(rates[0], rates[1], rtol=1e-12)


@pytest.mark.parametrize(
    "make",
    [
        lambda o: LambdaLR(o, warmup),
        lambda o: CosineAnnealingLR(o, 5),
        lambda o: StepLR(o, 2),
        lambda o: LinearLR(o, total_iters=6),
    ],
)
def test_a_schedule_resumed_from_a_file_is_the_same(tmp_path, make):
    straight = two_groups(mg.optim, mg.ones)
    schedule = make(straight)
    for _ in range(3):
        schedule.step()
    mg.save([straight.state_dict(), schedule.state_dict()], tmp_path / "s")
    optimizer = two_groups(mg.optim, mg.ones)
    resumed = make(optimizer)
    states = mg.load(tmp_path / "s")
    optimizer.load_state_dict(states[0])
    resumed.load_state_dict(states[1])
    continued = make_at(make, states[0], 3)
    for _ in range(6):
        assert resumed.get_last_lr() == schedule.get_last_lr()
        assert [g["lr"] for g in optimizer.param_groups] == [g["lr"] for g in straight.param_groups]
        assert continued.get_last_lr() == pytest.approx(schedule.get_last_lr(), rel=1e-12)
        for each in (schedule, resumed, continued):
            each.step()


def make_at(make, state, epoch):
    """Make the schedule anew at ``epoch``, on an optimizer whose state was loaded."""
    optimizer = two_groups(mg.optim, mg.ones)
    optimizer.load_state_dict(state)
    fresh = make(two_groups(mg.optim, mg.ones))
    options = {
        name: value
        for name, value in fresh.__dict__.items()
        if name in ("step_size", "gamma", "T_max", "eta_min", "total_iters")
    }
    if isinstance(fresh, LambdaLR):
        options["lr_lambda"] = warmup
    elif isinstance(fresh, StepLR):
        for group in optimizer.param_groups:  # constructing it at a multiple of step_size steps once more
            group["lr"] = group["lr"] if epoch % fresh.step_size else group["lr"] / fresh.gamma
    return type(fresh)(optimizer, last_epoch=epoch - 1, **options)


def test_wrong_arguments_of_schedules_are_refused():
    optimizer = two_groups(mg.optim, mg.ones)
    with pytest.raises(TypeError, match="Linear"):
        StepLR(mg.nn.Linear(1, 1), 1)
    with pytest.raises(ValueError, match="1 functions were given for 2"):
        LambdaLR(optimizer, [warmup])
    with pytest.raises(KeyError, match="initial_lr"):
        StepLR(optimizer, 1, last_epoch=3)
    with pytest.raises(ValueError, match="start_factor"):
        LinearLR(optimizer, start_factor=0)
    with pytest.raises(ValueError, match="end_factor"):
        LinearLR(optimizer, end_factor=-1)
    with pytest.raises(ValueError, match="step_size must be at least 1, not 0"):
        StepLR(optimizer, 0)
    with pytest.raises(ValueError, match="T_max must be above 0, not 0"):
        CosineAnnealingLR(optimizer, 0)
    with pytest.raises(ValueError, match="gamma"):
        StepLR(optimizer, 1).load_state_dict({"step_size": 1})


# --- small parameters are updated as one vector ---------------------------------------------------


def apart_and_joined(make, steps):
    """Train the same small parameters twice, each by itself and as one vector; return both sets and optimizers."""
    runs = []
    for together in (False, True):
        rng = np.random.default_rng(7)
        params = [
            mg.tensor(rng.standard_normal(s), requires_grad=True) for s in [(3, 4), (5,), (), (100, 90), (2, 0)]
        ]
        optimizer = make(params)
        if not together:
            optimizer.join = lambda k, small: None
        for step in range(steps):
            for k, p in enumerate(params):
                # The second has no gradient at first, nor in the seventh step.
                absent = k == 1 and step in (0, 6)
                p.grad = None if absent else mg.tensor(rng.standard_normal(p.shape))
            if step == 4:
                optimizer.load_state_dict(optimizer.state_dict())
            if step == 5:
                optimizer.param_groups[0]["lr"] *= 0.5
            optimizer.step()
        runs.append((params, optimizer))
    return runs


@pytest.mark.parametrize(
    "make",
    [
        lambda p: mg.optim.Adam(p, lr=0.1, weight_decay=0.1),
        lambda p: mg.optim.AdamW(p, lr=0.1),
        lambda p: mg.optim.AdamW(p, lr=0.1, amsgrad=True, maximize=True),
        lambda p: mg.optim.AdamW([{"params": p[:2]}, {"params": p[2:], "weight_decay": 0.0}], lr=0.1),
    ],
    ids=["Adam", "AdamW", "amsgrad", "groups"],
)
def test_joined_parameters_step_as_each_would_by_itself(make):
    """To the bit, and so does their state, which stays each one's own."""
    (apart, one), (joined, other) = apart_and_joined(make, 9)
    assert other._joined, "nothing was joined"
    for a, b in zip(apart, joined, strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())
        assert one.state[a].keys() == other.state[b].keys()
        for name, value in one.state[a].items():
            np.testing.assert_array_equal(np.asarray(value), np.asarray(other.state[b][name]))


def test_a_small_parameter_whose_gradient_has_another_dtype_is_stepped_too():
    params = [mg.ones(2, requires_grad=True) for _ in range(3)]
    optimizer = mg.optim.Adam(params, lr=0.25)
    for _ in range(3):
        for p, dtype in zip(params, (mg.float32, mg.float32, mg.float64), strict=True):
            p.grad = mg.ones(2, dtype=dtype)
        optimizer.step()
    assert optimizer._joined, "nothing was joined"
    assert [p.tolist() for p in params] == [pytest.approx([0.25, 0.25])] * 3


def test_joined_parameters_keep_their_memory():
    """An array that a user took from a parameter shows every step."""
    params = [mg.ones(3).requires_grad_(), mg.ones(4).requires_grad_()]
    seen = [p.detach().numpy() for p in params]
    optimizer = mg.optim.AdamW(params, lr=0.5)
    for _ in range(3):
        for p in params:
            p.grad = mg.ones(*p.shape)
        optimizer.step()
    assert all((array < 0).all() for array in seen)
    np.testing.assert_array_equal(seen[0], params[0].detach().numpy())
