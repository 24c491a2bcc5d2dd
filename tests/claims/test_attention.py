"""Claims 8 to 16: attention and its heads."""

import math

import numpy as np
import pytest
from models import array, attend, close, draw_ids, input_of_blocks, same, untrained_model, without_positions

import minigrad as mg
from minigrad import optim
from minigrad.nn import functional as F
from transformer import Config, Trainer
from transformer.capture import Capture

# --- 8 to 13: attention -----------------------------------------------------------------------------


def test_08_the_same_three_projections_serve_every_position(rng):
    """Queries, keys and values come from three matrices whose size does not depend on the length."""
    sizes = []
    for context in (3, 12, 48):
        attention = untrained_model(context=context).blocks[0].attention
        sizes.append([getattr(attention, name).weight.shape for name in ("W_Q", "W_K", "W_V")])
        assert sum(parameter.numel() for parameter in attention.parameters()) == 4 * 16 * 16
    assert sizes == [[(16, 16)] * 3] * 3
    assert len({untrained_model(context=context).n_parameters() for context in (3, 12, 48)}) == 1


def test_08_permuted_tokens_have_permuted_queries_keys_and_values(double, rng):
    """Without positions, a token has the same query, key and value wherever it stands."""
    model = without_positions(untrained_model(stir=0.3))
    ids, order = draw_ids(rng, 2, 9), rng.permutation(9)
    _, before = model.run_with_cache(ids)
    _, after = model.run_with_cache(ids[:, mg.tensor(order)])
    for name in ("q", "k", "v"):
        key = f"blocks.0.attention.{name}"
        close(array(before[key])[:, :, order], after[key], 1e-13)
    assert np.abs(array(before["blocks.0.attention.q"]) - array(after["blocks.0.attention.q"])).max() > 0.1


def test_09_scores_are_dot_products_over_the_root_of_d_k(double, rng):
    """How well a key fits a query is their dot product, divided by √d_k."""
    model = untrained_model(stir=0.3)
    _, cache = model.run_with_cache(draw_ids(rng, 2, 7))
    allowed = np.tri(7, dtype=bool)
    for i in range(2):
        q, k, scores = (array(cache[f"blocks.{i}.attention.{name}"]) for name in ("q", "k", "scores"))
        expected = np.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(8)
        close(scores[:, :, allowed], expected[:, :, allowed], 1e-12)


@pytest.mark.parametrize("d_k", [16, 64, 512])
def test_09_the_root_keeps_the_spread_of_the_scores_at_one(d_k):
    """For queries and keys of unit normal numbers, dot products spread by √d_k, and the scores by 1."""
    q, k = mg.randn(1, 16, 64, d_k), mg.randn(1, 16, 64, d_k)
    raw = q @ k.transpose(-2, -1)
    scores = attend(q, k, k, causal=False)["scores"]
    assert raw.std().item() == pytest.approx(math.sqrt(d_k), rel=0.03)
    assert scores.std().item() == pytest.approx(1, rel=0.03)
    assert abs(scores.mean().item()) < 0.03


@pytest.mark.parametrize(("d_k", "least"), [(64, 3), (512, 9)])
def test_10_unscaled_softmax_saturates(d_k, least):
    """Without the division softmax is nearly one-hot, and what p (1 − p) leaves of its gradient is small."""
    q, k = mg.randn(48, 1, 128, d_k), mg.randn(48, 1, 64, d_k)
    slopes = []
    for factor in (1, math.sqrt(d_k)):
        pattern = attend(q * factor, k, k, causal=False)["pattern"]
        slopes.append((pattern * (1 - pattern)).sum(-1).mean().item())
    assert slopes[0] / slopes[1] > least


def test_10_p_times_one_minus_p_is_the_slope_of_softmax(double):
    """A weight's derivative by its own score is p (1 − p), for each of them."""
    scores = mg.randn(6, requires_grad=True)
    p = (scores * 3).softmax(-1)
    for i in range(6):
        (row,) = mg.autograd.grad(p[i], scores, retain_graph=True)
        assert row[i].item() == pytest.approx(3 * p[i].item() * (1 - p[i].item()), rel=1e-12)


def test_11_the_future_weighs_exactly_zero(rng):
    """The future is masked to −∞ before softmax, so that its weight is exactly 0."""
    model = untrained_model(stir=0.3)
    _, cache = model.run_with_cache(draw_ids(rng, 2, 9))
    future = np.triu(np.ones((9, 9), bool), 1)
    for i in range(2):
        scores, pattern = (array(cache[f"blocks.{i}.attention.{name}"]) for name in ("scores", "pattern"))
        assert (scores[:, :, future] == -math.inf).all()
        assert (pattern[:, :, future] == 0.0).all()
        assert (pattern[:, :, ~future] > 0).all()
        assert not np.isnan(pattern).any()


def very_low_scores():
    """Return q, k and v of which every score is −10⁶."""
    q = mg.full((1, 1, 5, 4), 1000.0)
    return q, mg.full((1, 1, 5, 4), -500.0), mg.randn(1, 1, 5, 4)


def test_11_also_when_every_allowed_score_is_a_million_below_zero():
    """No allowed score is low enough for the masked ones to win: −10⁶ is still far above −∞."""
    q, k, v = very_low_scores()
    steps = attend(q, k, v)
    assert (array(steps["scores"])[0, 0][np.tri(5, dtype=bool)] == -1e6).all()
    expected = np.tri(5) / np.arange(1, 6)[:, None]
    close(steps["pattern"][0, 0], expected, 1e-7)
    assert (array(steps["pattern"])[0, 0][np.triu_indices(5, 1)] == 0.0).all()
    close(F.scaled_dot_product_attention(q, k, v, is_causal=True), expected @ array(v), 1e-6)


@pytest.mark.parametrize("fused", [True, False])
def test_11_no_gradient_reaches_the_future(fused):
    """Of what comes later, an output depends not at all: its gradient there is exactly 0."""
    q, k, v = (mg.randn(2, 2, 6, 4, requires_grad=True) for _ in range(3))
    for t in range(6):
        if fused:
            z = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            z = attend(q, k, v)["z"]
        cotangent = mg.zeros(2, 2, 6, 4)
        cotangent[:, :, t] = mg.randn(2, 2, 4)
        gradients = mg.autograd.grad(z, [q, k, v], cotangent)
        for gradient in gradients:
            assert (array(gradient)[:, :, t + 1 :] == 0.0).all()
        assert array(gradients[2])[:, :, : t + 1].all()


def test_11_no_gradient_of_the_whole_model_reaches_the_future(rng):
    """Through all blocks, the vectors that enter at later positions have a gradient of exactly 0."""
    model = untrained_model(stir=0.3)
    first, *_, last = input_of_blocks(model, draw_ids(rng, 2, 7))
    for t in range(7):
        cotangent = np.zeros(last.shape, np.float32)
        cotangent[:, t] = rng.standard_normal((2, 16))
        (gradient,) = mg.autograd.grad(last, first, mg.tensor(cotangent), retain_graph=True)
        assert (array(gradient)[:, t + 1 :] == 0.0).all()
        assert array(gradient)[:, : t + 1].any(-1).all()


def test_12_each_row_of_weights_is_a_distribution(rng):
    """Softmax makes every row positive where allowed, with the sum 1; the first token can only see itself."""
    model = untrained_model(stir=0.3)
    _, cache = model.run_with_cache(draw_ids(rng, 3, 12))
    for i in range(2):
        pattern = array(cache[f"blocks.{i}.attention.pattern"])
        assert (pattern[:, :, np.tri(12, dtype=bool)] > 0).all()
        assert np.abs(pattern.astype(np.float64).sum(-1) - 1).max() < 1e-6
        assert (pattern[:, :, 0] == [1.0] + [0.0] * 11).all()


def test_12_also_with_scores_of_a_thousand():
    """Scores of ±1000, which e^x could not hold, give finite weights with the sum 1."""
    signs = mg.where(mg.randn(1, 1, 8, 1) > 0, 1.0, -1.0)
    q, k = mg.ones(1, 1, 8, 4) * signs * 500, mg.ones(1, 1, 8, 4) * signs.flip(2)
    steps = attend(q, k, mg.randn(1, 1, 8, 4))
    assert {*array(steps["scores"])[0, 0][np.tri(8, dtype=bool)]} == {1000.0, -1000.0}
    pattern = array(steps["pattern"])
    assert np.isfinite(pattern).all()
    assert np.abs(pattern.sum(-1) - 1).max() < 1e-6


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_13_all_tokens_at_once_equals_one_at_a_time(double, positions, rng):
    """One pass over the text gives what one for each token gives, with the keys and values of the others kept.

    And so do passes over every beginning of the text.
    """
    model = untrained_model(stir=0.3, positions=positions)
    ids = draw_ids(rng, 2, 12)
    cache = model.new_cache(2)
    with mg.no_grad():
        at_once = model(ids)
        one_by_one = mg.cat([model(ids[:, t : t + 1], cache=cache) for t in range(12)], dim=1)
        beginnings = mg.stack([model(ids[:, : t + 1])[:, -1] for t in range(12)], dim=1)
    close(at_once, one_by_one, 1e-12)
    close(at_once, beginnings, 1e-12)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_13_the_matrix_fills_row_by_row(double, norm, rng):
    """The attention pattern of each token, as it comes, is its row of the whole matrix."""
    model = untrained_model(stir=0.3, norm=norm)
    ids = draw_ids(rng, 1, 9)
    cache = model.new_cache()
    with mg.no_grad():
        _, whole = model.run_with_cache(ids)
        for t in range(9):
            steps = {}
            model(ids[:, t : t + 1], Capture(steps), cache)
            for name in ("blocks.0.attention.pattern", "blocks.1.attention.pattern"):
                assert steps[name].shape == (1, 2, 1, t + 1)
                close(steps[name], array(whole[name])[:, :, t : t + 1, : t + 1], 1e-12)


# --- 14, 15, 16: heads ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["W_Q", "W_K", "W_V"])
def test_14_every_head_has_projections_of_its_own(name, rng):
    """Changing one head's matrices leaves the others' output as it was, exactly."""
    model = untrained_model(n_heads=4, n_layers=1, stir=0.3)
    ids = draw_ids(rng, 2, 8)
    _, before = model.run_with_cache(ids)
    rows = slice(2 * 4, 3 * 4)
    with mg.no_grad():
        getattr(model.blocks[0].attention, name).weight[rows] += mg.randn(4, 16)
    _, after = model.run_with_cache(ids)
    for head in range(4):
        unchanged = same(before["blocks.0.attention.z"][:, head], after["blocks.0.attention.z"][:, head])
        assert unchanged == (head != 2)


@pytest.mark.parametrize(("heads", "width"), [(3, 128), (5, 32), (16, 8)])
def test_14_heads_have_to_divide_the_width(heads, width):
    """Heads share the width out evenly; numbers that do not allow it are refused, and both are named."""
    with pytest.raises(ValueError, match=rf"\b{heads} heads\b.*\b{width}\b"):
        Config(vocab_size=5, n_heads=heads, d_model=width)


def test_14_the_paper_has_8_heads_of_64_dimensions():
    """In the paper 8 heads each work in 64 of the 512 dimensions."""
    paper = Config.preset("paper", vocab_size=37_000)
    assert (paper.n_heads, paper.d_k, paper.d_model) == (8, 64, 512)


def test_15_heads_are_concatenated_and_mixed_by_one_matrix(double, rng):
    """The output is the sum of what each head adds: its z times its part of W_O."""
    model = untrained_model(n_heads=4, stir=0.3)
    _, cache = model.run_with_cache(draw_ids(rng, 2, 8))
    for i, block in enumerate(model.blocks):
        z, mix = array(cache[f"blocks.{i}.attention.z"]), array(block.attention.W_O.weight)
        parts = [z[:, head] @ mix[:, 4 * head : 4 * head + 4].T for head in range(4)]
        close(cache[f"blocks.{i}.attention.out"], sum(parts), 1e-12)
        for head, part in enumerate(parts):
            assert np.abs(part).max() > 0.01, head


REPEATED_LENGTH, REPEATED_TOKENS = 16, 8


def repeated_sequences(rng, n):
    """Return n sequences, each a few different tokens in random order over and over, and the number of them."""
    periods = rng.integers(3, REPEATED_TOKENS, n)
    rows = [np.resize(rng.permutation(REPEATED_TOKENS)[:period], REPEATED_LENGTH + 1) for period in periods]
    return np.stack(rows), periods


def induction_scores(model):
    """Return, for each layer and head, the weight on the token after the last time that this token was seen.

    The second time round there is just one such place: a period less one step back.
    """
    sequences, periods = repeated_sequences(np.random.default_rng(99), 64)
    _, cache = model.run_with_cache(mg.tensor(sequences[:, :-1]))
    places = [
        (b, t, t - period + 1)
        for b, period in enumerate(periods)
        for t in range(period, min(REPEATED_LENGTH, 2 * period - 1))
    ]
    b, t, s = np.transpose(places)
    patterns = [array(cache[f"blocks.{i}.attention.pattern"]) for i in range(model.config.n_layers)]
    return np.stack([pattern[b, :, t, s].mean(0) for pattern in patterns])


@pytest.fixture(scope="module")
def induction():
    """Return the induction scores of a model before and after training on repeated random sequences."""
    rng = np.random.default_rng(3)
    model = untrained_model(
        seed=3,
        vocab_size=REPEATED_TOKENS,
        d_model=32,
        d_ff=32,
        context=REPEATED_LENGTH,
        positions="learned",
    )
    trainer = Trainer(model, optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.99), weight_decay=0.0))
    before = induction_scores(model)
    for _ in range(400):
        sequences, periods = repeated_sequences(rng, 32)
        predictable = np.arange(REPEATED_LENGTH) >= periods[:, None]
        targets = np.where(predictable, sequences[:, 1:], -100)
        trainer.step(mg.tensor(sequences[:, :-1]), mg.tensor(targets))
    return before, induction_scores(model)


def test_16_heads_come_to_differ_by_training(induction):
    """Trained on repeated random sequences, a head attends to what came after this token the last time.

    No head did before, and not all do after; the head is in the second layer, where it can look for the
    previous token that the first layer has written beside each.
    """
    before, after = induction
    assert before.shape == after.shape == (2, 2)
    assert before.max() < 0.25
    assert after.max() > 0.8
    assert after.argmax() // 2 == 1
    assert after.min() < 0.2
