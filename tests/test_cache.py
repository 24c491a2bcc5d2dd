"""Reading with a cache: the same numbers as without, in windows that move, each token read once."""

from itertools import pairwise

import numpy as np
import pytest
from models import LETTERS, VOCABULARY, array, difference, make_model, uncached

import minigrad as mg
from minigrad import nn
from transformer import generate
from transformer.capture import Capture
from transformer.generation import generate_ids
from transformer.reader import Reader, first_visible
from transformer.step import decoder_step

VARIANTS = [
    {},
    {"positions": "learned"},
    {"norm": "pre", "activation": "gelu", "bias": True, "tie_weights": False},
    {"dropout": 0.5},
]


@pytest.mark.parametrize("variant", VARIANTS)
def test_cached_logits_equal_uncached_ones_at_every_step(variant, double, rng):
    """Also past the window, after a prompt longer than it, in windows of all sizes, and in a second generation."""
    model = make_model(**variant)
    tokens = rng.integers(0, VOCABULARY, 45).tolist()
    for window in (None, 1, 2, 3, 7) + (() if variant else (9, 20)):
        for n_prompt in (1, 5, 8, 30):
            reader = Reader(model, window=window)
            new = tokens[:n_prompt]
            for n in range(n_prompt, len(tokens)):
                got = reader.read([new])
                assert difference(got[0], uncached(model, tokens[:n], window)) < 1e-12, (window, n_prompt, n)
                new = [tokens[n]]
            assert reader.slid == (len(tokens) - 1 > (window or 8))


@pytest.mark.parametrize("variant", VARIANTS)
def test_cached_logits_equal_uncached_ones_in_float32(variant, rng):
    model = make_model(**variant)
    tokens = rng.integers(0, VOCABULARY, 40).tolist()
    reader = Reader(model)
    for n in range(1, 40):
        got = reader.read([[tokens[n - 1]]])[0]
        assert got.dtype == np.float32
        expected = uncached(model, tokens[:n])
        assert difference(got, expected) < 2e-6 * max(1, np.abs(array(expected)).max())


def test_texts_that_grow_in_pieces_of_any_size(double, rng):
    """Several tokens can follow what is in the cache, and the first ones in it."""
    model = make_model()
    tokens = rng.integers(0, VOCABULARY, 60).tolist()
    for sizes in ([3, 4, 1], [1, 7, 2, 2], [8, 8, 8], [20, 1, 1, 5]):
        reader, n = Reader(model), 0
        for size in sizes:
            got = reader.read([tokens[n : n + size]])
            n += size
            assert difference(got[0], uncached(model, tokens[:n])) < 1e-12


@pytest.mark.parametrize("window", [None, 5, 13])
def test_texts_of_different_lengths_read_as_each_would_alone(window, double, rng):
    model = make_model()
    texts = [rng.integers(0, VOCABULARY, 60).tolist() for _ in range(4)]
    reader = Reader(model, 4, window)
    ends = [1, 6, 25, 6]
    new = [text[:end] for text, end in zip(texts, ends, strict=True)]
    rows = [0, 1, 2, 3]
    for step in range(25):
        got = reader.read(new)
        for scores, row in zip(got, rows, strict=True):
            assert difference(scores, uncached(model, texts[row][: ends[row]], window)) < 1e-12, (step, row)
        if step == 10:  # a text can be left out from some point on
            reader.keep([0, 2, 3])
            rows = [0, 2, 3]
        new = [[texts[row][ends[row]]] for row in rows]
        for row in rows:
            ends[row] += 1


def test_the_window_moves_in_hops_and_half_of_it_stays_in_sight():
    for window in range(1, 12):
        starts = [first_visible(n, window) for n in range(1, 60)]
        for n, start in enumerate(starts, 1):
            assert n - start <= window
            assert n <= window or n - start > window - max(1, window // 2)
        moves = sum(a != b for a, b in pairwise(starts))
        assert moves == -(-(59 - window) // max(1, window // 2))


def test_each_token_is_read_once_between_hops():
    """The passes of a generation: the prompt, single tokens, and half a window when that has moved."""
    model = make_model()
    sizes = []
    model.embedding.register_forward_hook(lambda _, args, out: sizes.append(args[0].shape[1]))
    list(generate_ids(model, [1, 2, 3], 14))
    assert sizes == [3, 1, 1, 1, 1, 1, 5, 1, 1, 1, 5, 1, 1, 1]
    sizes.clear()
    list(generate(model, LETTERS, ["abcd", "ab", "ab"], 7))
    # Prompts of one length share a pass, and so do single tokens; the text that slides has a pass of its own.
    assert sizes == [2, 4, 1, 1, 1, 1, 1, 5, 1]


def test_a_hook_or_a_replaced_part_is_not_passed_by(double, rng):
    """The kernel for single tokens stands in for the model only where that is just what its files say."""
    tokens = rng.integers(0, VOCABULARY, 8).tolist()

    class Doubled(nn.Linear):
        def forward(self, x):
            return super().forward(x) * 2

    plain = make_model()
    assert decoder_step(plain) is not None
    hooked, replaced = make_model(), make_model()
    hooked.blocks[1].ffn.register_forward_hook(lambda _, args, out: out * 2)
    part = Doubled(32, 8)
    part.load_state_dict(replaced.blocks[1].ffn.contract.state_dict())
    replaced.blocks[1].ffn.contract = part
    for model in (hooked, replaced):
        assert decoder_step(model) is None
        reader = Reader(model)
        for n in range(1, 9):
            got = reader.read([[tokens[n - 1]]])[0]
            assert difference(got, uncached(model, tokens[:n])) < 1e-12
        assert difference(got, uncached(plain, tokens)) > 0.01
    patched = make_model()
    patched.blocks[0].attention.forward = lambda x, *rest: x
    assert decoder_step(patched) is None
    assert decoder_step(make_model(dropout=0.5)) is None
    assert decoder_step(make_model(dropout=0.5).eval()) is not None


@pytest.mark.parametrize("variant", VARIANTS[:3])
def test_what_is_captured_with_a_cache_is_the_last_part_of_what_is_captured_without(variant, double, rng):
    model = make_model(**variant).eval()
    ids = mg.tensor(rng.integers(0, VOCABULARY, (2, 8)))
    with mg.no_grad():
        logits, whole = model.run_with_cache(ids)
        cache, n = model.new_cache(2), 0
        for size in (3, 1, 4):
            steps = {}
            got = model(ids[:, n : n + size], Capture(steps), cache)
            assert difference(got, logits[:, n : n + size]) < 1e-12
            assert steps.keys() == whole.keys()
            end = n + size
            for name, tensor in steps.items():
                expected = array(whole[name])
                kind = name.split(".")[-1]
                if kind in ("scores", "pattern"):
                    expected = expected[:, :, n:end, :end]
                elif kind in ("k", "v"):
                    expected = expected[:, :, :end]
                elif kind in ("q", "z"):
                    expected = expected[:, :, n:end]
                elif name == "positions":
                    expected = expected[n:end]
                else:
                    expected = expected[:, n:end]
                finite = np.isfinite(expected)
                assert (np.isfinite(array(tensor)) == finite).all()
                assert np.abs(array(tensor)[finite] - expected[finite]).max() < 1e-12, name
            n = end


def test_a_cache_makes_room_as_it_is_needed(double, rng):
    model = make_model()
    ids = mg.tensor(rng.integers(0, VOCABULARY, (2, 30)))
    cache = model.new_cache(2, capacity=2)
    with mg.no_grad():
        got = mg.cat([model(ids[:, t : t + 1], cache=cache) for t in range(30)], 1)
        assert difference(got, model(ids)) < 1e-12
    assert cache.lengths == [30, 30]


def test_a_cache_is_refused_where_it_would_be_wrong():
    model = make_model()
    ids = mg.tensor([[1, 2]])
    with pytest.raises(RuntimeError, match="no_grad"):
        model(ids, cache=model.new_cache())
    with mg.no_grad(), pytest.raises(ValueError, match="holds 3 texts, but the ids are of 1"):
        model(ids, cache=model.new_cache(3))
    with mg.no_grad(), pytest.raises(ValueError, match="holds 2 texts, but the ids are of 1"):
        model(mg.tensor([[1]]), cache=model.new_cache(2))
    with pytest.raises(RuntimeError, match="no_grad"):
        model(mg.tensor([[1]]), cache=model.new_cache())
    for token in (-1, VOCABULARY):
        with mg.no_grad(), pytest.raises(IndexError, match=f"index {token} is out of range"):
            model(mg.tensor([[token]]), cache=model.new_cache())
    with pytest.raises(ValueError, match="only a causal model"):
        make_model(causal=False).new_cache()


def test_a_model_that_is_not_causal_reads_all_again_each_time(double, rng):
    model = make_model(causal=False)
    tokens = rng.integers(0, VOCABULARY, 20).tolist()
    reader = Reader(model, 2)
    for n in range(1, 20):
        got = reader.read([[tokens[n - 1]], [tokens[-n]]])
        assert difference(got[0], uncached(model, tokens[:n])) < 1e-12
        assert difference(got[1], uncached(model, tokens[: -n - 1 : -1])) < 1e-12


def test_windows_that_cannot_be():
    with pytest.raises(ValueError, match="the window must be at least 1 token, not 0"):
        Reader(make_model(), window=0)
    with pytest.raises(
        ValueError, match=r"learned its 8 positions one by one: the window cannot be 9, only up to 8"
    ):
        Reader(make_model(positions="learned"), window=9)


def test_a_text_that_outgrows_the_window_is_noted():
    model = make_model()
    reader = Reader(model)
    reader.read([[1] * 8])
    assert reader.note() == ""
    reader.read([[1]])
    assert "longer than the 8 tokens" in reader.note()
    assert "from the last 5 to 8" in reader.note()
    beyond = Reader(model, window=20)
    beyond.read([[1] * 9])
    assert "past the 8 tokens that the model was trained to see" in beyond.note()
    assert "sees up to 20" in beyond.note()
