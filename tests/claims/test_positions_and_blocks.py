"""Claims 17 to 28: positions, blocks, and from vectors back to tokens."""

import math

import numpy as np
import pytest
from models import (
    array,
    close,
    differences_of_loss,
    draw_ids,
    input_of_blocks,
    normalized,
    same,
    untrained_model,
    without_positions,
)

import minigrad as mg
from minigrad import nn
from minigrad.nn import functional as F
from transformer import Config, Transformer
from transformer.block import Block, FeedForward
from transformer.capture import Capture
from transformer.embedding import sinusoids

# --- 17 to 21: positions ----------------------------------------------------------------------------


def test_17_attention_alone_does_not_see_distance(double, rng):
    """In one layer without positions, the order of the earlier tokens makes no difference to the last one."""
    model = untrained_model(n_layers=1, stir=0.3)
    ids = mg.tensor([[4, 0, 7, 2, 9, 1, 5]])
    permuted = ids[:, mg.tensor([3, 5, 0, 4, 1, 2, 6])]
    with mg.no_grad():
        moved = (model(ids)[0, -1] - model(permuted)[0, -1]).abs().max().item()
        without_positions(model)
        stays, other = model(ids)[0], model(permuted)[0]
    assert moved > 0.01
    close(stays[-1], other[-1], 1e-13)
    assert (stays[3] - other[3]).abs().max().item() > 0.01  # which tokens came before, it does see


def test_18_the_positions_are_added_to_the_scaled_embedding(rng):
    """What enters the first block is exactly √d_model · embedding + position."""
    for d_model in (16, 18):  # √18 is not exact
        model = untrained_model(d_model=d_model)
        ids = draw_ids(rng, 2, 9)
        _, cache = model.run_with_cache(ids)
        entering = input_of_blocks(model, ids)[0]
        assert same(entering, cache["embed"] * math.sqrt(d_model) + cache["positions"])
        assert same(cache["positions"], sinusoids(9, d_model))


def test_18_the_positions_are_sine_and_cosine():
    """PE(p, 2i) = sin(p / 10000^(2i/d)) and PE(p, 2i + 1) is the cosine of the same."""
    angle = np.arange(200)[:, None] / 10000 ** (np.arange(0, 32, 2) / 32)
    table = array(sinusoids(200, 32, mg.float64))
    close(table[:, 0::2], np.sin(angle), 1e-12)
    close(table[:, 1::2], np.cos(angle), 1e-12)


@pytest.mark.parametrize("d_model", [2, 32, 512])
def test_18_every_position_has_the_same_length(d_model):
    """The norm of each position's vector is √(d/2), since sin² + cos² = 1 for each of d/2 pairs."""
    norms = np.linalg.norm(array(sinusoids(1000, d_model, mg.float64)), axis=1)
    close(norms, np.full(1000, math.sqrt(d_model / 2)), 1e-12)


def test_18_an_odd_width_is_refused():
    """Sine and cosine come in pairs, so an odd d_model is refused, in a sentence that names it."""
    with pytest.raises(ValueError, match=r"sinusoidal positions come in pairs.*even, not 15"):
        Config(vocab_size=5, n_heads=3, d_model=15)
    assert Config(vocab_size=5, n_heads=3, d_model=15, positions="learned").d_k == 5


@pytest.mark.parametrize("k", [0, 1, 7, 100])
def test_19_a_relative_position_is_one_rotation(k):
    """For every offset k there is one rotation that takes PE(p) to PE(p + k), whatever p is."""
    d = 16
    table = array(sinusoids(20_000, d, mg.float64))
    here, there = table[: 20_000 - k], table[k:]
    rotation = np.linalg.lstsq(here, there, rcond=None)[0].T
    close(here @ rotation.T, there, 1e-10)
    close(rotation @ rotation.T, np.eye(d), 1e-10)
    assert np.linalg.det(rotation) == pytest.approx(1, abs=1e-10)
    expected = np.zeros((d, d))
    for i in range(0, d, 2):
        angle = k / 10000 ** (i / d)
        expected[i : i + 2, i : i + 2] = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
    close(here @ expected.T, there, 1e-10)


def test_20_sinusoids_run_past_the_training_length(double, rng):
    """At four times the context the model works, its answers are finite, and no parameter is resized."""
    model = untrained_model(stir=0.3)
    ids = draw_ids(rng, 2, 48)
    shapes = {name: tensor.shape for name, tensor in model.state_dict().items()}
    with mg.no_grad():
        short = model(ids[:, :12])
        long = model(ids)
        again = model(ids[:, :12])
    assert long.shape == (2, 48, 11)
    assert long.isfinite().all()
    assert {name: tensor.shape for name, tensor in model.state_dict().items()} == shapes
    close(long[:, :12], short, 1e-12)
    assert same(again, short)
    _, cache = model.run_with_cache(ids)
    close(cache["positions"], sinusoids(48, 16), 0)


def test_20_learned_positions_end_with_a_sentence(rng):
    """Learned positions exist up to the context only, and whoever asks for more is told so."""
    model = untrained_model(positions="learned")
    assert model(draw_ids(rng, 1, 12)).shape == (1, 12, 11)
    with pytest.raises(ValueError, match=r"learned positions end at 12, but position 12 was asked for") as caught:
        model(draw_ids(rng, 1, 13))
    assert "\n" not in str(caught.value)


def test_21_each_position_has_a_fingerprint_of_its_own(rng):
    """No two positions look alike, and a position looks the same in every text of every batch."""
    table = array(sinusoids(4096, 32))
    assert len(np.unique(table, axis=0)) == 4096
    assert np.linalg.norm(np.diff(table, axis=0), axis=1).min() > 0.5
    model = untrained_model()
    seen = [model.run_with_cache(draw_ids(rng, batch, 9))[1]["positions"] for batch in (1, 2, 5)]
    assert same(seen[0], seen[1])
    assert same(seen[0], seen[2])
    assert same(model.run_with_cache(draw_ids(rng, 1, 4))[1]["positions"], seen[0][:4])


# --- 22 to 26: blocks -------------------------------------------------------------------------------


def test_22_the_blocks_are_alike_in_shape():
    """Identical blocks are stacked, so that the number of parameters is linear in theirs."""
    counts = [untrained_model(n_layers=n).n_parameters() for n in (1, 2, 3, 7)]
    block = 4 * 16**2 + 2 * 16 * 64 + 64 + 16 + 4 * 16
    assert counts == [11 * 16 + n * block for n in (1, 2, 3, 7)]
    shapes = [{name: p.shape for name, p in b.named_parameters()} for b in untrained_model(n_layers=3).blocks]
    assert shapes[0] == shapes[1] == shapes[2]
    first, second = (array(block.attention.W_Q.weight) for block in untrained_model().blocks)
    assert (first != second).any()  # but not in their weights


def test_22_the_base_decoder_of_the_paper_has_38_million_parameters():
    """The paper's decoder has 6 blocks and, with 37,000 tokens and one table, 37.85 million parameters."""
    model = Transformer(Config.preset("paper", vocab_size=37_000))
    assert len(model.blocks) == 6
    assert model.n_parameters() == 37_000 * 512 + 6 * (4 * 512**2 + 2 * 512 * 2048 + 2048 + 512 + 4 * 512)
    assert round(model.n_parameters() / 1e6, 2) == 37.85


def test_23_each_sublayer_adds_to_its_input_and_the_sum_is_normalised(rng):
    """x becomes LayerNorm(x + attention(x)), and that becomes LayerNorm(· + FFN(·))."""
    model = untrained_model()
    ids = draw_ids(rng, 2, 9)
    _, cache = model.run_with_cache(ids)
    entering = input_of_blocks(model, ids)[0]
    for i in range(2):
        get = {name: cache[f"blocks.{i}.{name}"] for name in ("attention.out", "residual_attention")}
        get |= {name: cache[f"blocks.{i}.{name}"] for name in ("norm_attention", "ffn.out", "residual_ffn")}
        if i:
            entering = cache["blocks.0.norm_ffn"]
            assert same(get["residual_attention"], entering + get["attention.out"])
        else:  # computed by the fused kernel, so but for rounding
            close(get["residual_attention"], entering + get["attention.out"], 1e-6)
        close(get["norm_attention"], normalized(array(get["residual_attention"])), 1e-5)
        assert same(get["residual_ffn"], get["norm_attention"] + get["ffn.out"])
        close(cache[f"blocks.{i}.norm_ffn"], normalized(array(get["residual_ffn"])), 1e-5)


def test_23_the_stack_gives_vectors_of_mean_0_and_variance_1(double, rng):
    """With γ = 1 and β = 0, each vector that leaves the stack has mean 0 and variance 1."""
    model = untrained_model(n_layers=4)
    last = array(input_of_blocks(model, draw_ids(rng, 2, 9))[-1])
    assert np.abs(last.mean(-1)).max() < 1e-14
    assert np.abs(last.var(-1) - 1).max() < 1e-4


def silence(block):
    """Have both sub-layers of a block return zeros."""
    for parameter in (block.attention.W_O.weight, block.ffn.contract.weight, block.ffn.contract.bias):
        nn.init.zeros_(parameter)


def jacobian(output, input):
    """Return the derivative of each element of ``output`` by each of ``input``, as a matrix."""
    rows = []
    for i in range(output.numel()):
        cotangent = np.zeros(output.numel())
        cotangent[i] = 1
        cotangent = mg.tensor(cotangent.reshape(output.shape))
        (row,) = mg.autograd.grad(output, input, cotangent, retain_graph=True)
        rows.append(array(row).reshape(-1))
    return np.stack(rows)


def test_24_the_identity_path_carries_the_gradient(double):
    """Where the sub-layers add nothing, what comes out is the input, and so is what goes back."""
    config = Config(vocab_size=2, n_heads=2, d_model=4, d_ff=8)
    block, kept = Block(config), {}
    silence(block)
    x = mg.randn(1, 3, 4, requires_grad=True)
    block(x, Capture(kept))
    assert same(kept["residual_attention"], x.detach())
    assert (jacobian(kept["residual_attention"], x) == np.eye(12)).all()
    assert (jacobian(kept["residual_ffn"], kept["norm_attention"]) == np.eye(12)).all()
    pre = Block(Config(vocab_size=2, n_heads=2, d_model=4, d_ff=8, norm="pre"))
    assert (jacobian(pre(x), x) != np.eye(12)).any()
    silence(pre)
    assert same(pre(x), x)
    assert (jacobian(pre(x), x) == np.eye(12)).all()


def gradient_ratio(model, ids, targets, residual, norm):
    """Return the norm of the gradient at the first block's input over that at the last block's."""
    x = model.embedding(ids)
    entering = []
    for block in model.blocks:
        x.retain_grad()
        entering.append(x)
        for name in ("attention", "ffn"):
            change = getattr(block, name)(x)
            x = x + change if residual else change
            x = getattr(block, f"norm_{name}")(x) if norm else x
    F.cross_entropy(model.output(x).reshape(-1, 11), targets.reshape(-1)).backward()
    return (entering[0].grad.norm() / entering[-1].grad.norm()).item()


@pytest.mark.parametrize("seed", range(3))
def test_24_without_the_identity_path_the_gradient_fades(seed, rng):
    """Through 12 blocks a gradient arrives with the residual paths, and without them next to nothing does."""
    ids, targets = draw_ids(rng, 4, 12), draw_ids(rng, 4, 12)
    model = untrained_model(seed=seed, n_layers=12, d_model=32)
    assert gradient_ratio(model, ids, targets, residual=False, norm=False) < 0.02
    assert gradient_ratio(model, ids, targets, residual=True, norm=False) > 10
    with_norm = gradient_ratio(model, ids, targets, residual=True, norm=True)
    assert 0.1 < with_norm < 10
    leaving = input_of_blocks(model, ids)[-1]
    assert leaving.shape == (4, 12, 32)


def test_25_layer_norm_gives_mean_0_and_variance_1_then_a_learned_rescale(double, rng):
    """Each vector's mean is subtracted, it is divided by √(biased variance + ε), then rescaled by γ and β."""
    norm = nn.LayerNorm(9, eps=0.3)
    gain, shift = rng.standard_normal((2, 9))
    x = rng.standard_normal((4, 5, 9)) * 2 + 3
    centered = x - x.mean(-1, keepdims=True)
    expected = centered / np.sqrt((centered**2).sum(-1, keepdims=True) / 9 + 0.3)
    close(norm(mg.tensor(x)), expected, 1e-13)
    norm.load_state_dict({"weight": mg.tensor(gain), "bias": mg.tensor(shift)})
    close(norm(mg.tensor(x)), expected * gain + shift, 1e-13)
    block = untrained_model().blocks[0]
    for layer in (block.norm_attention, block.norm_ffn):
        assert (array(layer.weight) == 1).all()
        assert (array(layer.bias) == 0).all()
        assert layer.eps == 1e-5


def test_25_layer_norm_keeps_the_pattern(double, rng):
    """The numbers keep their order, and a · x + b has the same result as x."""
    x = rng.standard_normal((50, 16))
    norm = nn.LayerNorm(16, eps=1e-15)
    y = array(norm(mg.tensor(x)))
    assert (y.argsort(-1) == x.argsort(-1)).all()
    close(norm(mg.tensor(3.5 * x - 20)), y, 1e-12)
    close(norm(mg.tensor(-2 * x)), -y, 1e-12)


@pytest.mark.parametrize("value", [0.0, 0.1, -7.3, 1e6, 1e-20])
@pytest.mark.parametrize("width", [3, 7, 32, 512])
def test_25_layer_norm_of_a_constant_vector_is_beta(value, width):
    """A vector without any variation gives exactly β, and never 0 / 0."""
    norm = nn.LayerNorm(width)
    nn.init.normal_(norm.bias)
    x = mg.full((2, width), value, requires_grad=True)
    y = norm(x)
    assert same(y, norm.bias.detach().expand(2, width))
    (gradient,) = mg.autograd.grad(y, x, mg.randn(2, width))
    assert gradient.isfinite().all()


def test_26_the_feed_forward_network_sees_one_token():
    """Each token passes through by itself: other positions change nothing, exactly."""
    ffn = FeedForward(Config(vocab_size=2, d_model=16))
    x = mg.randn(2, 6, 16)
    changed = x.clone()
    changed[:, [0, 1, 2, 4, 5]] = mg.randn(2, 5, 16)
    assert same(ffn(x)[:, 3], ffn(changed)[:, 3])
    assert not same(ffn(x)[:, 2], ffn(changed)[:, 2])


def test_26_the_feed_forward_network_is_four_times_as_wide(double, rng):
    """It goes from d to 4 · d, cuts off what is negative, and comes back: max(0, x W₁ + b₁) W₂ + b₂."""
    model = untrained_model(stir=0.3)
    ids = draw_ids(rng, 2, 5)
    _, cache = model.run_with_cache(ids)
    assert cache["blocks.0.ffn.hidden"].shape == (2, 5, 64)
    ffn = model.blocks[1].ffn
    x = array(cache["blocks.1.norm_attention"])
    hidden = np.maximum(0, x @ array(ffn.expand.weight).T + array(ffn.expand.bias))
    close(cache["blocks.1.ffn.hidden"], hidden, 1e-12)
    close(cache["blocks.1.ffn.out"], hidden @ array(ffn.contract.weight).T + array(ffn.contract.bias), 1e-12)
    assert 0.2 < (hidden > 0).mean() < 0.8
    assert Config.preset("paper", vocab_size=2).d_ff == 4 * 512


# --- 27, 28: from vectors back to tokens ------------------------------------------------------------


def test_27_the_logits_reuse_the_embedding_table(double, rng):
    """A token's score is the inner product of the last vector with that token's row: logits = h Eᵀ."""
    model = untrained_model(stir=0.3)
    logits, cache = model.run_with_cache(draw_ids(rng, 2, 9))
    expected = array(cache["blocks.1.norm_ffn"]) @ array(model.embedding.token.weight).T
    close(logits, expected, 1e-12)
    assert same(cache["logits"], logits)


def test_27_the_table_is_one_parameter(tmp_path):
    """The table is there once: counted once, stored once, and still one after loading."""
    model = untrained_model(stir=0.3)
    assert model.output.weight is model.embedding.token.weight
    assert [p for p in model.parameters() if p.shape == (11, 16)] == [model.embedding.token.weight]
    untied = untrained_model(tie_weights=False)
    assert untied.n_parameters() - model.n_parameters() == 11 * 16
    mg.save(model.state_dict(), tmp_path / "model.safetensors")
    stored = pytest.importorskip("safetensors.numpy").load_file(tmp_path / "model.safetensors")
    assert len([value for value in stored.values() if value.shape == (11, 16)]) == 1
    assert sum(value.size for value in stored.values()) == model.n_parameters()
    other = untrained_model(seed=2)
    other.load_state_dict(mg.load(tmp_path / "model.safetensors"))
    assert other.output.weight is other.embedding.token.weight
    assert same(other.embedding.token.weight, model.embedding.token.weight)


def with_the_weights_of(model, **fields):
    """Return a model of another shape, with the values of this one's parameters wherever it has them."""
    other = untrained_model(**fields)
    other.load_state_dict(model.state_dict())
    return other


def test_27_the_table_learns_from_both_of_its_uses(double, rng):
    """The table's gradient is the sum of what both uses ask for, and is what the loss really does."""
    model = untrained_model(stir=0.3)
    ids, targets = draw_ids(rng, 2, 6), draw_ids(rng, 2, 6)
    (gradient,) = mg.autograd.grad(model.loss(ids, targets), model.embedding.token.weight)
    untied = with_the_weights_of(model, tie_weights=False)
    tables = [untied.embedding.token.weight, untied.output.weight]
    uses = mg.autograd.grad(untied.loss(ids, targets), tables)
    close(gradient, array(uses[0]) + array(uses[1]), 1e-14)
    assert all(np.abs(array(use)).max() > 1e-3 for use in uses)
    close(gradient, differences_of_loss(model, model.embedding.token.weight, ids, targets), 1e-9)


def test_28_the_loss_is_minus_the_log_of_the_probability_given(double, rng):
    """Softmax of the logits is the model's distribution, and the loss is −log p of the token that came."""
    model = untrained_model(stir=0.3)
    ids, targets = draw_ids(rng, 3, 8), draw_ids(rng, 3, 8)
    logits = array(model(ids))
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    close(model(ids).softmax(-1), p, 1e-14)
    chosen = np.take_along_axis(p, targets.numpy()[..., None], -1)
    assert model.loss(ids, targets).item() == pytest.approx(-np.log(chosen).mean(), rel=1e-13)
    one = model.loss(ids[:1, :1], targets[:1, :1]).item()
    assert one == pytest.approx(-math.log(p[0, 0, targets[0, 0].item()]), rel=1e-13)
