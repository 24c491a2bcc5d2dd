"""What "Transformers and Attention Is All You Need" says of a transformer, claim by claim, on this one.

The tests stand in the order in which the explanation makes its claims.  Where a claim says "exactly" there is no
tolerance.
"""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minigrad as mg
from minigrad import nn, optim
from minigrad.nn import functional as F
from transformer import BPETokenizer, Config, Recipe, Trainer, Transformer
from transformer.attention import attention_step_by_step, causal_mask
from transformer.block import Block, FeedForward
from transformer.capture import Capture
from transformer.data import default_corpus
from transformer.embedding import sinusoids
from transformer.generation import Sampling
from transformer.text import Text, make_tokenizer
from transformer.training import training_steps

# --- models and what is read from them ----------------------------------------------------------------------


def make_model(seed=1, stir=0.0, **fields):
    """Return an untrained model; ``stir`` adds noise to every parameter, so that none has a special value."""
    shape = {"vocab_size": 11, "n_layers": 2, "n_heads": 2, "d_model": 16, "context": 12}
    with mg.fork_rng(seed), mg.no_grad():
        model = Transformer(Config(**{**shape, **fields}))
        if stir:
            for parameter in model.parameters():
                parameter.add_(stir * mg.randn(*parameter.shape))
    return model


def draw_ids(rng, *shape, vocab_size=11):
    return mg.tensor(rng.integers(0, vocab_size, shape))


def array(tensor):
    return tensor.detach().numpy()


def same(a, b):
    """Whether two tensors agree to the last bit."""
    return a.shape == b.shape and a.dtype == b.dtype and array(a).tobytes() == array(b).tobytes()


def close(a, b, tolerance):
    """Assert that two tensors or arrays differ by no more than ``tolerance``, anywhere."""
    a, b = (array(x) if isinstance(x, mg.Tensor) else np.asarray(x) for x in (a, b))
    assert a.shape == b.shape
    assert np.abs(a - b).max() <= tolerance


def without_positions(model):
    """Take the positions out of a model with sinusoids."""
    model.embedding.position = mg.zeros(*model.embedding.position.shape, dtype=model.embedding.position.dtype)
    return model


def input_of_blocks(model, ids):
    """Return the vectors that enter each block, and those that leave the last one."""
    seen = []
    hooks = [
        block.register_forward_hook(lambda _, args, out: seen.append((args[0], out))) for block in model.blocks
    ]
    model(ids)
    for hook in hooks:
        hook.remove()
    return [x for x, _ in seen] + [seen[-1][1]]


def attend(q, k, v, causal=True):
    """Run one attention's inner part on queries, keys and values (B, H, T, d_k); return all of its steps."""
    steps = {}
    attention_step_by_step(q, k, v, causal_mask(q.shape[-2]) if causal else None, Capture(steps))
    return steps


def normalized(x, eps=1e-5):
    """Layer normalisation in NumPy, without its rescale."""
    centered = x - x.mean(-1, keepdims=True)
    return centered / np.sqrt((centered**2).mean(-1, keepdims=True) + eps)


@pytest.fixture
def double():
    """Make new tensors float64."""
    mg.set_default_dtype(mg.float64)
    yield
    mg.set_default_dtype(mg.float32)


# --- what is trained, once ----------------------------------------------------------------------------------


def copied_words():
    """Return lines of one random word, twice: no two lines are alike, but their shape and second half repeat."""
    letters = np.random.default_rng(3).choice(list("abcdefghijkl"), (3000, 4))
    return "".join(f"{word} {word}\n" for word in map("".join, letters))


@pytest.fixture(scope="module")
def trained():
    """Return a small model that has learned `copied_words`, the text, and its loss at each step."""
    text = copied_words()
    parts = Text.encode(text, make_tokenizer(text), context=16)
    recipe = Recipe(steps=500, batch_size=16, learning_rate=3e-3, warmup_steps=50, threads=1)
    with mg.fork_rng(1):
        model = Transformer(Config.preset("micro", vocab_size=parts.tokenizer.vocab_size))
        losses = [progress.loss for progress in training_steps(model, parts.train_ids, recipe)]
    return model.eval(), parts, losses


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
    model = make_model(
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


# --- 1, 2: a guess at what comes next -----------------------------------------------------------------------


def chi_squared(counts, probabilities):
    """Return Pearson's statistic as a standard normal number (Wilson and Hilferty's approximation)."""
    expected = counts.sum() * probabilities
    rare = expected < 5
    if rare.any():
        counts = np.append(counts[~rare], counts[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    freedom = len(counts) - 1
    statistic = ((counts - expected) ** 2 / expected).sum()
    return ((statistic / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / math.sqrt(2 / (9 * freedom))


def test_01_the_output_is_one_distribution_over_the_vocabulary(trained):
    """The model's answer is one probability for every token it knows, and what is drawn from it follows them."""
    model, parts, _ = trained
    with mg.no_grad():
        logits = model(mg.tensor([parts.tokenizer.encode("abcd ab")]))[0, -1]
    p = logits.softmax(-1)
    assert p.shape == (parts.tokenizer.vocab_size,)
    assert (p > 0).all()
    assert abs(p.sum().item() - 1) < 1e-6
    p = array(Sampling().distribution(logits))
    assert abs(p.sum() - 1) < 1e-12
    assert p.max() > 10 * p.min()
    draws = mg.multinomial(mg.tensor(p), 100_000, replacement=True, generator=mg.Generator().manual_seed(5))
    counts = np.bincount(draws.numpy(), minlength=len(p))
    assert counts.sum() == 100_000
    assert len(counts) == len(p)
    assert abs(chi_squared(counts, p)) < 3.3
    shifted = 0.98 * p + 0.02 / len(p)
    assert chi_squared(counts, shifted) > 3.3


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("preset", ["micro", "small"])
def test_02_untrained_it_is_close_to_uniform(preset, norm, rng):
    """Before training every token is about equally likely: the first loss is near ln V."""
    with mg.fork_rng(0):
        model = Transformer(Config.preset(preset, vocab_size=65, norm=norm))
    ids = draw_ids(rng, 4, model.config.context + 1, vocab_size=65)
    with mg.no_grad():
        logits = model(ids[:, :-1])
        assert abs(model.loss(ids[:, :-1], ids[:, 1:]).item() - math.log(65)) < 0.7
    assert logits.softmax(-1).max().item() < 0.25


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_02_rows_of_variance_one_over_d_would_start_far_from_uniform(norm, rng):
    """The embedding's first scale matters, for its table also gives the logits: 1/√d would repeat the token."""
    with mg.fork_rng(0):
        model = Transformer(Config.preset("small", vocab_size=65, n_layers=2, norm=norm))
        nn.init.normal_(model.embedding.token.weight, std=128**-0.5)
    ids = draw_ids(rng, 4, 65, vocab_size=65)
    with mg.no_grad():
        assert model.loss(ids[:, :-1], ids[:, 1:]).item() > math.log(65) + 1
        assert (model(ids).argmax(-1) == ids).float().mean().item() > 0.9


def test_02_trained_it_is_far_from_uniform(trained):
    """Training takes the loss from ln V far down."""
    _, parts, losses = trained
    assert abs(losses[0] - math.log(parts.tokenizer.vocab_size)) < 0.7
    assert np.mean(losses[-50:]) < math.log(parts.tokenizer.vocab_size) - 0.4


# --- 3, 4: tokens -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bpe():
    return BPETokenizer.train(default_corpus()[:60_000], vocab_size=700)


@given(text=st.text(st.characters()))
def test_03_text_comes_back_from_its_tokens(bpe, text):
    """Text becomes tokens and tokens become the same text, whatever its characters."""
    assert bpe.decode(bpe.encode(text)) == text


@given(content=st.binary())
def test_03_bytes_come_back_from_their_tokens(bpe, content):
    """Any bytes have tokens, for each byte is one."""
    assert bpe.decode_bytes(content) == content


def test_03_common_words_stay_whole_and_rare_ones_split(bpe):
    """A word that the training text has often is one token, an invented one is several."""
    for word in (" the", " object", " statement", " function"):
        assert len(bpe.encode(word)) == 1, word
    for word in (" florbix", " quizzaciously", "zyzzyva"):
        assert len(bpe.encode(word)) > 1, word


def test_03_fewer_merges_are_the_first_of_more(bpe):
    """A tokenizer of k merges is made of the first k merges of any larger one."""
    corpus = default_corpus()[:60_000]
    for k in (0, 1, 100, 300):
        smaller = BPETokenizer.train(corpus, vocab_size=256 + k)
        assert smaller.merges == bpe.merges[:k]
        assert smaller.encode(corpus[:2000]) == bpe.with_merges(k).encode(corpus[:2000])


def test_04_letters_are_invisible_inside_a_whole_token(bpe):
    """The model is told which token a word is and none of the word's letters."""
    (whole,) = bpe.encode(" statement")
    assert whole not in [id for letter in " statement" for id in bpe.encode(letter)]
    assert whole >= 256
    spelled = [id for letter in " statement" for id in bpe.encode(letter)]
    assert spelled == list(b" statement")
    assert bpe.decode(spelled) == bpe.decode([whole])
    # One letter more and one letter other are other numbers, with nothing in common.
    assert not {whole} & {*bpe.encode(" statemont"), *bpe.encode(" stateme")}


# --- 5, 6, 7: embeddings, and what context makes of them ----------------------------------------------------


def test_05_a_token_looks_up_a_learned_vector(rng):
    """Every token is replaced by its row of one table, and on that side only the rows used learn from it."""
    model = make_model(tie_weights=False, stir=0.3)
    table = model.embedding.token.weight
    ids = mg.tensor([[3, 1, 3, 7], [1, 1, 0, 9]])
    logits, cache = model.run_with_cache(ids)
    assert same(cache["embed"], mg.tensor(array(table)[ids.numpy()]))
    (logits * mg.tensor(rng.standard_normal(logits.shape), dtype=mg.float32)).sum().backward()
    reached = array(table.grad).any(-1)
    assert reached.tolist() == [token in (0, 1, 3, 7, 9) for token in range(11)]


def test_05_a_row_used_twice_learns_from_both_uses(rng):
    """What flows back to the places of one token adds up in its row."""
    model = make_model()
    ids = draw_ids(rng, 3, 5)
    _, cache = model.run_with_cache(ids)
    cotangent = rng.standard_normal((3, 5, 16)).astype(np.float32)
    (gradient,) = mg.autograd.grad(cache["embed"], model.embedding.token.weight, mg.tensor(cotangent))
    expected = np.zeros((11, 16))
    np.add.at(expected, ids.numpy(), cotangent)
    close(gradient, expected, 1e-6)


def test_05_through_the_tied_output_every_row_learns(rng):
    """Where the table also gives the logits, no row is left out."""
    model = make_model(stir=0.3)
    logits = model(mg.tensor([[3, 1, 3, 7]]))
    (logits * mg.tensor(rng.standard_normal(logits.shape), dtype=mg.float32)).sum().backward()
    assert array(model.embedding.token.weight.grad).any(-1).all()


def test_06_the_lookup_knows_no_context():
    """A token starts from exactly the same vector in two different texts."""
    model = make_model(stir=0.3)
    _, river = model.run_with_cache(mg.tensor([[5, 2, 9]]))
    _, savings = model.run_with_cache(mg.tensor([[1, 4, 9]]))
    assert same(river["embed"][0, 2], savings["embed"][0, 2])
    _, elsewhere = model.run_with_cache(mg.tensor([[9, 4, 1, 6], [0, 0, 9, 9]]))
    for place in ((0, 0), (1, 2), (1, 3)):
        assert same(elsewhere["embed"][place], river["embed"][0, 2])


def test_07_context_shifts_the_vector():
    """After one block the same token has another vector, because other tokens came before it."""
    model = make_model(stir=0.3)
    _, cache = model.run_with_cache(mg.tensor([[5, 2, 9], [1, 4, 9]]))
    assert same(cache["embed"][0, 2], cache["embed"][1, 2])
    vectors = array(cache["blocks.0.norm_ffn"])
    assert np.abs(vectors[0, 2] - vectors[1, 2]).max() > 0.01


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_07_nothing_looks_ahead(norm, rng):
    """What comes later changes no earlier vector, exactly, in any block."""
    model = make_model(stir=0.3, norm=norm)
    ids = draw_ids(rng, 2, 10).numpy()
    changed = ids.copy()
    changed[:, 6:] = (changed[:, 6:] + 1 + rng.integers(0, 9, (2, 4))) % 11
    (before, first), (after, second) = (model.run_with_cache(mg.tensor(x)) for x in (ids, changed))
    names = [name for name in first if name.endswith(("q", "k", "v", "z", "out", "hidden", "attention", "ffn"))]
    assert len(names) == 2 * 11
    for name in [*names, "embed", "logits"]:
        early, late = (slice(None, 6), slice(6, None))
        place = (slice(None), slice(None)) if first[name].ndim == 4 else (slice(None),)
        assert same(first[name][*place, early], second[name][*place, early]), name
        assert not same(first[name][*place, late], second[name][*place, late]), name
    with mg.no_grad():
        before, after = (model(mg.tensor(x)) for x in (ids, changed))  # the fused kernel
    assert same(before[:, :6], after[:, :6])
    assert not same(before[:, 6:], after[:, 6:])


# --- 8 to 13: attention -------------------------------------------------------------------------------------


def test_08_the_same_three_projections_serve_every_position(rng):
    """Queries, keys and values come from three matrices whose size does not depend on the length."""
    sizes = []
    for context in (3, 12, 48):
        attention = make_model(context=context).blocks[0].attention
        sizes.append([getattr(attention, name).weight.shape for name in ("W_Q", "W_K", "W_V")])
        assert sum(parameter.numel() for parameter in attention.parameters()) == 4 * 16 * 16
    assert sizes == [[(16, 16)] * 3] * 3
    assert len({make_model(context=context).n_parameters() for context in (3, 12, 48)}) == 1


def test_08_permuted_tokens_have_permuted_queries_keys_and_values(double, rng):
    """Without positions, a token has the same query, key and value wherever it stands."""
    model = without_positions(make_model(stir=0.3))
    ids, order = draw_ids(rng, 2, 9), rng.permutation(9)
    _, before = model.run_with_cache(ids)
    _, after = model.run_with_cache(ids[:, mg.tensor(order)])
    for name in ("q", "k", "v"):
        key = f"blocks.0.attention.{name}"
        close(array(before[key])[:, :, order], after[key], 1e-13)
    assert np.abs(array(before["blocks.0.attention.q"]) - array(after["blocks.0.attention.q"])).max() > 0.1


def test_09_scores_are_dot_products_over_the_root_of_d_k(double, rng):
    """How well a key fits a query is their dot product, divided by √d_k."""
    model = make_model(stir=0.3)
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
    model = make_model(stir=0.3)
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
    model = make_model(stir=0.3)
    first, *_, last = input_of_blocks(model, draw_ids(rng, 2, 7))
    for t in range(7):
        cotangent = np.zeros(last.shape, np.float32)
        cotangent[:, t] = rng.standard_normal((2, 16))
        (gradient,) = mg.autograd.grad(last, first, mg.tensor(cotangent), retain_graph=True)
        assert (array(gradient)[:, t + 1 :] == 0.0).all()
        assert array(gradient)[:, : t + 1].any(-1).all()


def test_12_each_row_of_weights_is_a_distribution(rng):
    """Softmax makes every row positive where allowed, with the sum 1; the first token can only see itself."""
    model = make_model(stir=0.3)
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
    model = make_model(stir=0.3, positions=positions)
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
    model = make_model(stir=0.3, norm=norm)
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


# --- 14, 15, 16: heads --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["W_Q", "W_K", "W_V"])
def test_14_every_head_has_projections_of_its_own(name, rng):
    """Changing one head's matrices leaves the others' output as it was, exactly."""
    model = make_model(n_heads=4, n_layers=1, stir=0.3)
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
    model = make_model(n_heads=4, stir=0.3)
    _, cache = model.run_with_cache(draw_ids(rng, 2, 8))
    for i, block in enumerate(model.blocks):
        z, mix = array(cache[f"blocks.{i}.attention.z"]), array(block.attention.W_O.weight)
        parts = [z[:, head] @ mix[:, 4 * head : 4 * head + 4].T for head in range(4)]
        close(cache[f"blocks.{i}.attention.out"], sum(parts), 1e-12)
        for head, part in enumerate(parts):
            assert np.abs(part).max() > 0.01, head


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


# --- 17 to 21: positions ------------------------------------------------------------------------------------


def test_17_attention_alone_does_not_see_distance(double, rng):
    """In one layer without positions, the order of the earlier tokens makes no difference to the last one."""
    model = make_model(n_layers=1, stir=0.3)
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
        model = make_model(d_model=d_model)
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
    model = make_model(stir=0.3)
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
    model = make_model(positions="learned")
    assert model(draw_ids(rng, 1, 12)).shape == (1, 12, 11)
    with pytest.raises(ValueError, match=r"learned positions end at 12, but position 12 was asked for") as caught:
        model(draw_ids(rng, 1, 13))
    assert "\n" not in str(caught.value)


def test_21_each_position_has_a_fingerprint_of_its_own(rng):
    """No two positions look alike, and a position looks the same in every text of every batch."""
    table = array(sinusoids(4096, 32))
    assert len(np.unique(table, axis=0)) == 4096
    assert np.linalg.norm(np.diff(table, axis=0), axis=1).min() > 0.5
    model = make_model()
    seen = [model.run_with_cache(draw_ids(rng, batch, 9))[1]["positions"] for batch in (1, 2, 5)]
    assert same(seen[0], seen[1])
    assert same(seen[0], seen[2])
    assert same(model.run_with_cache(draw_ids(rng, 1, 4))[1]["positions"], seen[0][:4])


# --- 22 to 26: blocks ---------------------------------------------------------------------------------------


def test_22_the_blocks_are_alike_in_shape():
    """Identical blocks are stacked, so that the number of parameters is linear in theirs."""
    counts = [make_model(n_layers=n).n_parameters() for n in (1, 2, 3, 7)]
    block = 4 * 16**2 + 2 * 16 * 64 + 64 + 16 + 4 * 16
    assert counts == [11 * 16 + n * block for n in (1, 2, 3, 7)]
    shapes = [{name: p.shape for name, p in b.named_parameters()} for b in make_model(n_layers=3).blocks]
    assert shapes[0] == shapes[1] == shapes[2]
    first, second = (array(block.attention.W_Q.weight) for block in make_model().blocks)
    assert (first != second).any()  # but not in their weights


def test_22_the_base_decoder_of_the_paper_has_38_million_parameters():
    """The paper's decoder has 6 blocks and, with 37,000 tokens and one table, 37.85 million parameters."""
    model = Transformer(Config.preset("paper", vocab_size=37_000))
    assert len(model.blocks) == 6
    assert model.n_parameters() == 37_000 * 512 + 6 * (4 * 512**2 + 2 * 512 * 2048 + 2048 + 512 + 4 * 512)
    assert round(model.n_parameters() / 1e6, 2) == 37.85


def test_23_each_sublayer_adds_to_its_input_and_the_sum_is_normalised(rng):
    """x becomes LayerNorm(x + attention(x)), and that becomes LayerNorm(· + FFN(·))."""
    model = make_model()
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
    model = make_model(n_layers=4)
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
    model = make_model(seed=seed, n_layers=12, d_model=32)
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
    block = make_model().blocks[0]
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
    model = make_model(stir=0.3)
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


# --- 27, 28: from vectors back to tokens --------------------------------------------------------------------


def test_27_the_logits_reuse_the_embedding_table(double, rng):
    """A token's score is the inner product of the last vector with that token's row: logits = h Eᵀ."""
    model = make_model(stir=0.3)
    logits, cache = model.run_with_cache(draw_ids(rng, 2, 9))
    expected = array(cache["blocks.1.norm_ffn"]) @ array(model.embedding.token.weight).T
    close(logits, expected, 1e-12)
    assert same(cache["logits"], logits)


def test_27_the_table_is_one_parameter(tmp_path):
    """The table is there once: counted once, stored once, and still one after loading."""
    model = make_model(stir=0.3)
    assert model.output.weight is model.embedding.token.weight
    assert [p for p in model.parameters() if p.shape == (11, 16)] == [model.embedding.token.weight]
    untied = make_model(tie_weights=False)
    assert untied.n_parameters() - model.n_parameters() == 11 * 16
    mg.save(model.state_dict(), tmp_path / "model.safetensors")
    stored = pytest.importorskip("safetensors.numpy").load_file(tmp_path / "model.safetensors")
    assert len([value for value in stored.values() if value.shape == (11, 16)]) == 1
    assert sum(value.size for value in stored.values()) == model.n_parameters()
    other = make_model(seed=2)
    other.load_state_dict(mg.load(tmp_path / "model.safetensors"))
    assert other.output.weight is other.embedding.token.weight
    assert same(other.embedding.token.weight, model.embedding.token.weight)


def with_the_weights_of(model, **fields):
    """Return a model of another shape, with the values of this one's parameters wherever it has them."""
    other = make_model(**fields)
    other.load_state_dict(model.state_dict())
    return other


def test_27_the_table_learns_from_both_of_its_uses(double, rng):
    """The table's gradient is the sum of what both uses ask for, and is what the loss really does."""
    model = make_model(stir=0.3)
    ids, targets = draw_ids(rng, 2, 6), draw_ids(rng, 2, 6)
    (gradient,) = mg.autograd.grad(model.loss(ids, targets), model.embedding.token.weight)
    untied = with_the_weights_of(model, tie_weights=False)
    tables = [untied.embedding.token.weight, untied.output.weight]
    uses = mg.autograd.grad(untied.loss(ids, targets), tables)
    close(gradient, array(uses[0]) + array(uses[1]), 1e-14)
    assert all(np.abs(array(use)).max() > 1e-3 for use in uses)
    close(gradient, differences(model, model.embedding.token.weight, ids, targets), 1e-9)


def test_28_the_loss_is_minus_the_log_of_the_probability_given(double, rng):
    """Softmax of the logits is the model's distribution, and the loss is −log p of the token that came."""
    model = make_model(stir=0.3)
    ids, targets = draw_ids(rng, 3, 8), draw_ids(rng, 3, 8)
    logits = array(model(ids))
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    close(model(ids).softmax(-1), p, 1e-14)
    chosen = np.take_along_axis(p, targets.numpy()[..., None], -1)
    assert model.loss(ids, targets).item() == pytest.approx(-np.log(chosen).mean(), rel=1e-13)
    one = model.loss(ids[:1, :1], targets[:1, :1]).item()
    assert one == pytest.approx(-math.log(p[0, 0, targets[0, 0].item()]), rel=1e-13)


# --- 29 to 32: learning -------------------------------------------------------------------------------------


def test_29_the_loss_measures_how_wrong_the_guess_was(double):
    """A uniform guess costs ln V, a certain and right one nothing, a certain and wrong one very much."""
    targets = mg.tensor([4, 0, 2])
    assert F.cross_entropy(mg.zeros(3, 10), targets).item() == pytest.approx(math.log(10), rel=1e-15)
    certain = 800.0 * F.one_hot(targets, 10).double()
    assert F.cross_entropy(certain, targets).item() == 0
    assert F.cross_entropy(certain, mg.tensor([5, 1, 3])).item() == 800
    extreme = mg.where(mg.randn(3, 10) > 0, 800.0, -800.0)
    assert F.cross_entropy(extreme, targets).isfinite()
    losses = [F.cross_entropy(mg.tensor([[x, 0.0, 0.0]]), mg.tensor([0])).item() for x in range(-3, 4)]
    assert all(a > b for a, b in pairwise(losses))


def test_29_logits_of_800_are_finite_in_float32_too():
    """Logits of ±800, whose exponentials no float holds, have a finite loss and a finite gradient."""
    logits = mg.tensor([[800.0, -800.0, 0.0], [-800.0, 800.0, 800.0]], requires_grad=True)
    loss = F.cross_entropy(logits, mg.tensor([1, 2]))
    assert loss.item() == pytest.approx((1600 + math.log(2)) / 2, rel=1e-6)
    loss.backward()
    close(logits.grad, [[0.5, -0.5, 0], [0, 0.25, -0.25]], 1e-5)


def test_29_label_smoothing_has_a_floor(double, rng):
    """With a tenth of the target spread over all tokens, no guess costs less than −Σ q log q."""
    q = np.full(7, 0.1 / 7)
    q[3] += 0.9
    floor = -(q * np.log(q)).sum()
    best = mg.tensor(np.log(q)[None], requires_grad=True)
    loss = F.cross_entropy(best, mg.tensor([3]), label_smoothing=0.1)
    assert loss.item() == pytest.approx(floor, rel=1e-14)
    loss.backward()
    assert np.abs(array(best.grad)).max() < 1e-15
    for _ in range(50):
        guess = mg.tensor(np.log(q)[None] + rng.standard_normal((1, 7)))
        assert F.cross_entropy(guess, mg.tensor([3]), label_smoothing=0.1).item() > floor


def test_29_the_model_smooths_its_labels_so(double, rng):
    """The model's own smoothed loss is −Σ q log p of its distributions."""
    model = make_model(stir=0.3)
    ids, targets = draw_ids(rng, 2, 5), draw_ids(rng, 2, 5)
    log_p = array(model(ids).log_softmax(-1))
    q = 0.9 * np.eye(11)[targets.numpy()] + 0.1 / 11
    expected = -(q * log_p).sum(-1).mean()
    assert model.loss(ids, targets, label_smoothing=0.1).item() == pytest.approx(expected, rel=1e-13)


def differences(model, parameter, ids, targets, h=1e-4):
    """Return the derivative of the loss by each number of a parameter, as four-point central differences."""
    values = parameter.detach().numpy()
    result = np.zeros(values.shape)
    with mg.no_grad():
        for index in np.ndindex(values.shape):
            value, losses = values[index], []
            for step in (2, 1, -1, -2):
                values[index] = value + step * h
                losses.append(model.loss(ids, targets).item())
            values[index] = value
            result[index] = (8 * (losses[1] - losses[2]) - (losses[0] - losses[3])) / (12 * h)
    return result


def test_30_backpropagation_gives_each_weight_its_share(double, rng):
    """For every weight there is, the gradient is how much the loss changes when that weight alone does."""
    model = make_model(seed=4, vocab_size=7, d_model=8, d_ff=16, context=5, stir=0.3)
    ids, targets = draw_ids(rng, 1, 5, vocab_size=7), draw_ids(rng, 1, 5, vocab_size=7)
    parameters = dict(model.named_parameters())
    assert len(parameters) == 1 + 2 * 12
    gradients = mg.autograd.grad(model.loss(ids, targets), list(parameters.values()))
    for (name, parameter), gradient in zip(parameters.items(), gradients, strict=True):
        expected = differences(model, parameter, ids, targets)
        assert np.abs(array(gradient)).max() > 1e-4, name
        assert np.abs(array(gradient) - expected).max() < 1e-7 * np.abs(expected).max(), name


def test_31_a_small_step_makes_the_right_token_likelier(rng):
    """One step of gradient descent lowers the loss and raises the probability of the token that came."""
    ids, targets = draw_ids(rng, 1, 8), draw_ids(rng, 1, 8)

    def after_a_step(lr):
        model = make_model(stir=0.3)
        optimizer = optim.SGD(model.parameters(), lr=lr)
        loss = F.cross_entropy(model(ids)[:, -1], targets[:, -1])
        before = math.exp(-loss.item())
        loss.backward()
        optimizer.step()
        later = F.cross_entropy(model(ids)[:, -1], targets[:, -1])
        p = model(ids)[0, -1].softmax(-1)[targets[0, -1].item()].item()
        return loss.item(), later.item(), before, p

    loss, later, before, p = after_a_step(0.01)
    assert later < loss
    assert p > before
    *_, much_before, still = after_a_step(0.0)
    assert still == pytest.approx(much_before, rel=1e-6)


def test_31_a_step_lowers_the_loss_of_a_whole_batch(rng):
    """So it does for many tokens together, on average."""
    model = make_model(stir=0.3)
    ids, targets = draw_ids(rng, 4, 12), draw_ids(rng, 4, 12)
    trainer = Trainer(model, optim.SGD(model.parameters(), lr=0.01), clip_norm=None)
    losses = [trainer.step(ids, targets) for _ in range(5)]
    assert all(a > b for a, b in pairwise(losses))


def short_run(seed, threads=1, dropout=0.0):
    """Train from a seed for a few steps; return the losses and every weight."""
    ids = mg.tensor(np.random.default_rng(0).integers(0, 11, 400))
    recipe = Recipe(steps=6, batch_size=4, learning_rate=1e-2, warmup_steps=2, threads=threads)
    with mg.fork_rng(seed):
        model = Transformer(Config(vocab_size=11, n_layers=2, n_heads=2, d_model=16, context=12, dropout=dropout))
        losses = [progress.loss for progress in training_steps(model, ids, recipe)]
    return losses, model.state_dict()


@pytest.mark.parametrize(("threads", "dropout"), [(1, 0.0), (2, 0.1)])
def test_32_one_seed_is_one_model(threads, dropout):
    """All weights start out random: another seed is another model, and the same seed the same, to the bit."""
    losses, weights = short_run(1, threads, dropout)
    again, same_weights = short_run(1, threads, dropout)
    assert losses == again
    assert all(same(weights[name], same_weights[name]) for name in weights)
    other, other_weights = short_run(2, threads, dropout)
    assert losses != other
    assert not any(same(weights[name], other_weights[name]) for name in weights)


def test_32_the_matrices_start_random_and_training_moves_them_all():
    """Before training, every matrix is random numbers; after it, none is as it was."""
    with mg.fork_rng(1):
        start = make_model(seed=1).state_dict()
    assert all(array(value).std() > 0.01 for value in start.values() if value.ndim > 1)
    _, trained_weights = short_run(1)
    with mg.fork_rng(1):
        begin = Transformer(Config(vocab_size=11, n_layers=2, n_heads=2, d_model=16, context=12)).state_dict()
    assert not any(same(begin[name], trained_weights[name]) for name in begin)


def test_32_repetition_makes_a_model_that_beats_counting(trained):
    """What training makes predicts unseen text better than every n-gram table of the same training text."""
    model, parts, losses = trained
    score = parts.score(model)
    baselines = parts.baselines()
    assert len(baselines) == 7
    assert score.nats_per_character < min(baseline.nats_per_symbol for baseline in baselines) - 0.2
    assert score.characters == len(parts.held_out)
    assert losses[0] > np.mean(losses[-50:]) + 0.4
