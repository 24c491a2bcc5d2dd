"""Claims 1 to 7: a guess at what comes next, tokens, embeddings."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from models import array, close, draw_ids, same, untrained_model

import minigrad as mg
from minigrad import nn
from transformer import BPETokenizer, Config, Transformer
from transformer.data import default_corpus
from transformer.generation import Sampling

# --- 1, 2: a guess at what comes next ---------------------------------------------------------------


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


# --- 3, 4: tokens -----------------------------------------------------------------------------------


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


# --- 5, 6, 7: embeddings, and what context makes of them --------------------------------------------


def test_05_a_token_looks_up_a_learned_vector(rng):
    """Every token is replaced by its row of one table, and on that side only the rows used learn from it."""
    model = untrained_model(tie_weights=False, stir=0.3)
    table = model.embedding.token.weight
    ids = mg.tensor([[3, 1, 3, 7], [1, 1, 0, 9]])
    logits, cache = model.run_with_cache(ids)
    assert same(cache["embed"], mg.tensor(array(table)[ids.numpy()]))
    (logits * mg.tensor(rng.standard_normal(logits.shape), dtype=mg.float32)).sum().backward()
    reached = array(table.grad).any(-1)
    assert reached.tolist() == [token in (0, 1, 3, 7, 9) for token in range(11)]


def test_05_a_row_used_twice_learns_from_both_uses(rng):
    """What flows back to the places of one token adds up in its row."""
    model = untrained_model()
    ids = draw_ids(rng, 3, 5)
    _, cache = model.run_with_cache(ids)
    cotangent = rng.standard_normal((3, 5, 16)).astype(np.float32)
    (gradient,) = mg.autograd.grad(cache["embed"], model.embedding.token.weight, mg.tensor(cotangent))
    expected = np.zeros((11, 16))
    np.add.at(expected, ids.numpy(), cotangent)
    close(gradient, expected, 1e-6)


def test_05_through_the_tied_output_every_row_learns(rng):
    """Where the table also gives the logits, no row is left out."""
    model = untrained_model(stir=0.3)
    logits = model(mg.tensor([[3, 1, 3, 7]]))
    (logits * mg.tensor(rng.standard_normal(logits.shape), dtype=mg.float32)).sum().backward()
    assert array(model.embedding.token.weight.grad).any(-1).all()


def test_06_the_lookup_knows_no_context():
    """A token starts from exactly the same vector in two different texts."""
    model = untrained_model(stir=0.3)
    _, river = model.run_with_cache(mg.tensor([[5, 2, 9]]))
    _, savings = model.run_with_cache(mg.tensor([[1, 4, 9]]))
    assert same(river["embed"][0, 2], savings["embed"][0, 2])
    _, elsewhere = model.run_with_cache(mg.tensor([[9, 4, 1, 6], [0, 0, 9, 9]]))
    for place in ((0, 0), (1, 2), (1, 3)):
        assert same(elsewhere["embed"][place], river["embed"][0, 2])


def test_07_context_shifts_the_vector():
    """After one block the same token has another vector, because other tokens came before it."""
    model = untrained_model(stir=0.3)
    _, cache = model.run_with_cache(mg.tensor([[5, 2, 9], [1, 4, 9]]))
    assert same(cache["embed"][0, 2], cache["embed"][1, 2])
    vectors = array(cache["blocks.0.norm_ffn"])
    assert np.abs(vectors[0, 2] - vectors[1, 2]).max() > 0.01


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_07_nothing_looks_ahead(norm, rng):
    """What comes later changes no earlier vector, exactly, in any block."""
    model = untrained_model(stir=0.3, norm=norm)
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
