"""Muon by its definition and by PyTorch, and several optimizers as one."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.optim import SGD, AdamW, Muon, Several
from minigrad.optim.lr_scheduler import LambdaLR
from minigrad.optim.muon import COEFFICIENTS, orthogonalize

SHAPES = [(6, 4), (3, 8), (5, 5), (1, 4)]


def leaves(dtype=np.float64, seed=0, shapes=SHAPES):
    rng = np.random.default_rng(seed)
    return [mg.tensor(rng.standard_normal(shape).astype(dtype), requires_grad=True) for shape in shapes]


def train(optimizer, tensors, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        sum((10.0**i) * (x.sin() + 0.1 * x * x).sum() for i, x in enumerate(tensors)).backward()
        optimizer.step()


@pytest.mark.parametrize("shape", [*SHAPES, (20, 30), (30, 7)])
def test_every_singular_value_goes_through_the_polynomial(shape, rng):
    """NumPy's singular value decomposition as the judge: U f(Σ) Vᵀ, f the polynomial applied five times."""
    matrix = rng.standard_normal(shape)
    u, values, vt = np.linalg.svd(matrix, full_matrices=False)
    values = values / np.linalg.norm(values)
    for _ in range(5):
        a, b, c = COEFFICIENTS
        values = a * values + b * values**3 + c * values**5
    before = matrix.copy()
    np.testing.assert_allclose(orthogonalize(matrix), u @ np.diag(values) @ vt, rtol=1e-9, atol=1e-11)
    assert np.array_equal(matrix, before)
    assert orthogonalize(matrix.astype(np.float32)).dtype == np.float32


def test_a_matrix_of_zeros_stays_so():
    assert not orthogonalize(np.zeros((3, 4))).any()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"lr": 0.05, "weight_decay": 0.0, "nesterov": False},
        {"lr": 0.05, "momentum": 0.7, "ns_steps": 3, "adjust_lr_fn": "match_rms_adamw"},
        {"lr": 0.01, "ns_coefficients": (2.0, -1.5, 0.5), "weight_decay": 0.5, "adjust_lr_fn": "original"},
    ],
    ids=str,
)
def test_twenty_steps_match_pytorch(torch, options, monkeypatch):
    """PyTorch's orthogonalises in bfloat16: here it is kept from rounding, so that all digits can be compared."""
    if not hasattr(torch.optim, "Muon"):
        pytest.skip("this PyTorch has no Muon")
    monkeypatch.setattr(torch.Tensor, "bfloat16", lambda self: self.clone())
    mine = leaves()
    peers = [torch.tensor(x.detach().numpy().copy(), requires_grad=True) for x in mine]
    ours, theirs = Muon(mine, **options), torch.optim.Muon(peers, **options)
    train(ours, mine, 20)
    train(theirs, peers, 20)
    for x, peer in zip(mine, peers, strict=True):
        np.testing.assert_allclose(x.detach().numpy(), peer.detach().numpy(), rtol=1e-9, atol=1e-11)
    plain = {name: value for name, value in theirs.param_groups[0].items() if name != "params"}
    assert {name: value for name, value in ours.param_groups[0].items() if name != "params"} == plain


def test_threads_give_the_same_bits():
    alone, together = leaves(np.float32, shapes=SHAPES * 3), leaves(np.float32, shapes=SHAPES * 3)
    train(Muon(alone, lr=0.1), alone, 3)
    train(Muon(together, lr=0.1, threads=3), together, 3)
    for x, y in zip(alone, together, strict=True):
        assert mg.equal(x, y)


def test_an_error_in_a_thread_is_raised():
    tensors = leaves()
    optimizer = Muon(tensors, threads=2)
    optimizer.param_groups[0]["ns_coefficients"] = (1.0,)
    with pytest.raises(ValueError, match="unpack"):
        train(optimizer, tensors, 1)


@pytest.mark.filterwarnings("ignore:a parameter is twice")
def test_a_parameter_given_twice_is_stepped_twice_in_turn():
    (once,), (twice,) = leaves(shapes=[(3, 3)]), leaves(shapes=[(3, 3)])
    optimizer, peer = Muon([twice, twice], threads=2), Muon([once])
    for x in (once, twice):
        x.grad = mg.ones(3, 3, dtype=mg.float64)
    optimizer.step()
    peer.step()
    peer.step()
    assert mg.equal(once, twice)


def test_muon_writes_in_place_and_keeps_float32():
    tensors = leaves(np.float32)
    memory = [x.detach().numpy() for x in tensors]
    optimizer = Muon(tensors)
    optimizer.param_groups[0]["lr"] = np.float64(0.1)
    train(optimizer, tensors, 2)
    for x, array in zip(tensors, memory, strict=True):
        assert np.shares_memory(x.detach().numpy(), array)
        assert x.dtype == mg.float32
        assert x._version[0] == 2
        assert optimizer.state[x]["momentum_buffer"].dtype == mg.float32


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Muon([mg.ones(3, requires_grad=True)]), r"matrices, not a parameter of shape .*3.*AdamW"),
        (lambda: Muon(leaves(), lr=-1), "lr must be at least 0, not -1"),
        (lambda: Muon(leaves(), momentum=-1), "momentum must be"),
        (lambda: Muon(leaves(), threads=0), "threads must be at least 1, not 0"),
        (lambda: Muon(leaves(), adjust_lr_fn="half"), "original or match_rms_adamw, not 'half'"),
        (lambda: Several(), "at least one optimizer"),
    ],
)
def test_what_does_not_work_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# --- several as one -----------------------------------------------------------------------------------------


def several(tensors):
    return Several(
        Muon(tensors[:2], lr=0.1), AdamW([{"params": tensors[2:3]}, {"params": tensors[3:], "lr": 0.5}])
    )


def test_several_step_as_each_by_itself():
    apart, together = leaves(), leaves()
    optimizer = several(together)
    train(optimizer, together, 3)
    parts = several(apart).optimizers
    for _ in range(3):
        for x in apart:
            x.grad = None
        sum((10.0**i) * (x.sin() + 0.1 * x * x).sum() for i, x in enumerate(apart)).backward()
        for part in parts:
            part.step()
    for x, y in zip(apart, together, strict=True):
        assert mg.equal(x, y)
    assert len(optimizer.state) == 4


def test_one_schedule_serves_several():
    optimizer = several(leaves())
    schedule = LambdaLR(optimizer, lambda step: 1 / (1 + step))
    optimizer.step()
    schedule.step()
    assert schedule.get_last_lr() == pytest.approx([0.05, 0.0005, 0.25])
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.05, 0.0005, 0.25])


def test_a_run_of_several_resumed_from_a_file_is_the_same_run(tmp_path):
    straight, interrupted = leaves(np.float32), leaves(np.float32)
    train(several(straight), straight, 7)
    first = several(interrupted)
    train(first, interrupted, 3)
    mg.save({"parameters": interrupted, "optimizer": first.state_dict()}, tmp_path / "run.safetensors")
    saved = mg.load(tmp_path / "run.safetensors")
    resumed = [x.requires_grad_() for x in saved["parameters"]]
    second = several(resumed)
    second.load_state_dict(saved["optimizer"])
    train(second, resumed, 4)
    for x, y in zip(straight, resumed, strict=True):
        assert not mg.equal(x, leaves(np.float32)[0])
        assert mg.equal(x, y)


def test_a_state_that_does_not_fit_several_changes_nothing():
    tensors = leaves()
    optimizer = several(tensors)
    train(optimizer, tensors, 2)
    state = optimizer.state_dict()
    groups, entries = state["param_groups"], state["state"]
    assert [group["params"] for group in groups] == [[0, 1], [2], [3]]
    assert [*entries] == [0, 1, 2, 3]
    before = entries[0]["momentum_buffer"].clone()
    changed = {**entries, 0: {"momentum_buffer": mg.zeros(*tensors[0].shape)}}
    for wrong, message in (
        ({}, "state_dict"),
        (None, "state_dict"),
        ({"state": entries, "param_groups": groups[:1]}, "1 parameter groups, the optimizer 3"),
        ({"state": {**changed, 9: {}}, "param_groups": groups}, "parameter 9 that is in no group"),
        ({"state": {**changed, 3: {"exp_avg": mg.zeros(7)}}, "param_groups": groups}, "'exp_avg' of shape"),
        ({"state": changed, "param_groups": [*groups[:2], {**groups[2], "lr": -1.0}]}, "lr must be"),
    ):
        with pytest.raises(ValueError, match=message):
            optimizer.load_state_dict(wrong)
        assert mg.equal(optimizer.state_dict()["state"][0]["momentum_buffer"], before)


def test_several_share_no_parameter_and_take_no_group():
    x, y = leaves(shapes=[(2, 2), (3, 3)])
    with pytest.raises(ValueError, match="more than one optimizer"):
        Several(Muon([x]), SGD([y, x]))
    with pytest.raises(TypeError, match="one of the optimizers"):
        Several(Muon([x])).add_param_group({"params": [y]})


def test_the_closure_is_called_once():
    x, y = leaves(shapes=[(2, 2), (3, 3)])
    calls = []

    def closure():
        calls.append(1)
        loss = (x * x).sum() + (y * y).sum()
        loss.backward()
        return loss

    optimizer = Several(Muon([x]), SGD([y]))
    with mg.no_grad():
        assert optimizer.step(closure).item() > 0
    assert calls == [1]
    optimizer.zero_grad()
    assert x.grad is None
    assert "momentum" in repr(optimizer)
