"""Generation: drawing a token, reading with a cache, stopping, and talking from the command line."""

import io
import math
import re
import signal
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from models import VOCABULARY, array, difference, make_model, same

import minigrad as mg
from minigrad import nn
from transformer import BPETokenizer, CharTokenizer, generate, save_checkpoint
from transformer.__main__ import main
from transformer.capture import Capture
from transformer.commands.generate import unescaped
from transformer.generation import Sampling, StopFilter, Writer, generate_ids
from transformer.reader import Reader, first_visible
from transformer.step import decoder_step

LETTERS = CharTokenizer("abcdefghijk")


def uncached(model, tokens, window=None):
    """Return the logits (V,) after ``tokens``, by one pass over all that is visible of them."""
    start = first_visible(len(tokens), window or model.config.context)
    with mg.no_grad():
        return model(mg.tensor([tokens[start:]]))[0, -1]


def written(prompt, model, tokenizer=LETTERS, n_tokens=20, **options):
    """Return the continuation of a prompt in one piece."""
    return "".join(generate(model, tokenizer, prompt, n_tokens, **options))


# --- drawing a token ----------------------------------------------------------------------------------------


def softmax(x):
    weights = np.exp(x - x.max())
    return weights / weights.sum()


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
def test_temperature_divides_the_logits(temperature, rng):
    logits = rng.standard_normal(20) * 3
    got = Sampling(temperature).distribution(mg.tensor(logits))
    assert difference(got, softmax(logits / temperature)) < 1e-15
    assert got.dtype == np.float64


def test_temperature_0_is_certain_of_the_likeliest_token():
    assert Sampling(0).distribution(mg.tensor([1.0, 3.0, 2.0])).tolist() == [0, 1, 0]
    assert Sampling(0).distribution(mg.tensor([3.0, 1.0, 3.0])).tolist() == [1, 0, 0]
    for temperature in (5e-324, 1e-300, 1e-3):
        assert Sampling(temperature).distribution(mg.tensor([1.0, 3.0, 2.0])).tolist() == [0, 1, 0]


@pytest.mark.parametrize("k", [1, 2, 5, 19, 20, 21, 1000])
def test_top_k_keeps_the_k_likeliest(k, rng):
    logits = rng.standard_normal(20)
    p = softmax(logits)
    kept = np.argsort(-logits)[:k]
    expected = np.zeros(20)
    expected[kept] = p[kept] / p[kept].sum()
    assert difference(Sampling(top_k=k).distribution(mg.tensor(logits)), expected) < 1e-15


@pytest.mark.parametrize("top_p", [1e-9, 0.1, 0.4999, 0.5001, 0.7999, 0.8001, 0.95, 1.0])
def test_top_p_keeps_the_fewest_that_reach_it(top_p):
    p = np.array([0.15, 0.5, 0.05, 0.3])
    kept = {0.1: 1, 0.4999: 1, 1e-9: 1, 0.5001: 2, 0.7999: 2, 0.8001: 3, 0.95: 3, 1.0: 4}[top_p]
    order = [1, 3, 0, 2][:kept]
    if top_p == 0.95:
        top_p -= 1e-9
    expected = np.zeros(4)
    expected[order] = p[order] / p[order].sum()
    assert difference(Sampling(top_p=top_p).distribution(mg.tensor(np.log(p))), expected) < 1e-15


def test_top_p_of_1_keeps_even_the_rarest_tokens():
    p = Sampling().distribution(mg.tensor([60.0, 0.0, 20.0]))
    assert p[1].item() == pytest.approx(math.exp(-60), rel=1e-12, abs=0)


def test_top_k_and_top_p_are_both_respected():
    logits = mg.tensor(np.log([0.4, 0.3, 0.2, 0.1]))
    both = Sampling(top_k=2, top_p=0.85).distribution(logits)
    assert difference(both, [4 / 7, 3 / 7, 0, 0]) < 1e-15
    assert difference(Sampling(top_k=3, top_p=0.5).distribution(logits), [4 / 7, 3 / 7, 0, 0]) < 1e-15


@given(
    st.lists(st.sampled_from([-1e4, -30.0, -1.0, 0.0, 0.0, 2.0, 50.0, 800.0]), min_size=1, max_size=12),
    st.sampled_from([0.0, 1e-3, 0.8, 1.0, 100.0]),
    st.integers(0, 14),
    st.sampled_from([1e-6, 0.3, 0.9, 1.0]),
)
def test_what_remains_is_always_a_distribution_of_the_likeliest(logits, temperature, top_k, top_p):
    p = array(Sampling(temperature, top_k, top_p).distribution(mg.tensor(logits)))
    assert (p >= 0).all()
    assert abs(p.sum() - 1) < 1e-12
    assert (p > 0).sum() <= (top_k or len(logits))
    assert p[np.argmax(logits)] > 0
    order = np.argsort(-np.array(logits), kind="stable")
    assert (np.diff(p[order]) <= 1e-15).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(({"temperature": value}, "temperature") for value in (-0.1, math.inf, math.nan)),
        ({"top_k": -1}, "top_k"),
        *(({"top_p": value}, "top_p") for value in (0.0, -0.5, 1.01, math.nan)),
    ],
)
def test_sampling_options_that_mean_nothing_are_refused(options, message):
    (value,) = options.values()
    with pytest.raises(ValueError, match=rf"{message} must be .*, not {value}$"):
        Sampling(**options)
    with pytest.raises(ValueError, match=rf"{message} must be .*, not {value}$"):
        list(generate(make_model(), CharTokenizer("abcdefghijk"), "a", **options))


@pytest.mark.parametrize("temperature", [0, 0.8])
def test_a_model_whose_logits_are_no_numbers_is_refused(temperature):
    model = make_model()
    with mg.no_grad():
        model.blocks[1].norm_ffn.bias[0] = math.nan
    with pytest.raises(ValueError, match="no finite logits"):
        written("ab", model, temperature=temperature)
    for logits in ([0.0, math.nan], [math.inf, 1.0], [-math.inf, -math.inf]):
        with pytest.raises(ValueError, match="no finite logits"):
            Sampling(temperature).draw(mg.tensor(logits))
    assert Sampling(temperature).draw(mg.tensor([-math.inf, 1.0])) == 1


# --- reading with a cache -----------------------------------------------------------------------------------

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


# --- generating ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@pytest.mark.parametrize("window", [None, 4])
def test_greedy_generation_takes_the_likeliest_token_every_time(positions, window):
    model = make_model(positions=positions, tie_weights=False, stir=1)
    sequence = [3, 1]
    got = list(generate_ids(model, sequence, 20, temperature=0, window=window))
    for _ in range(20):
        sequence.append(uncached(model, sequence, window).argmax().item())
    assert got == sequence[2:]
    assert len(set(got)) > 1


def test_a_seed_repeats_and_another_does_not():
    model = make_model()
    tokenizer = CharTokenizer("abcdefghijk")
    texts = ["".join(generate(model, tokenizer, "ab", 60, seed=seed)) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
    state = mg.get_rng_state()
    "".join(generate(model, tokenizer, "ab", 5, seed=1))
    assert same(mg.get_rng_state(), state)
    ids = [list(generate_ids(model, [1], 60, generator=mg.Generator().manual_seed(s))) for s in (4, 4, 5)]
    assert ids[0] == ids[1] != ids[2]
    mg.manual_seed(8)
    free = "".join(generate(model, tokenizer, "ab", 60))
    mg.manual_seed(8)
    assert free == "".join(generate(model, tokenizer, "ab", 60))


def test_tokens_are_drawn_from_the_models_distribution():
    model = make_model(n_layers=1)
    options = {"temperature": 0.7, "top_k": 8}
    with mg.no_grad():
        p = array(Sampling(**options).distribution(model(mg.tensor([[4, 2, 9]]))[0, -1]))
    n = 3000
    (letters,) = generate(model, LETTERS, [LETTERS.decode([4, 2, 9])] * n, 1, seed=3, **options)
    drawn = [LETTERS.encode(letter)[0] for letter in letters]
    counts = np.bincount(drawn, minlength=VOCABULARY)
    assert (counts[p == 0] == 0).all()
    kept = n * p > 5
    counts, expected = counts[kept], n * p[kept]
    freedom = kept.sum() - 1
    assert freedom >= 4
    assert ((counts - expected) ** 2 / expected).sum() < freedom + 4 * math.sqrt(2 * freedom)


def test_generation_leaves_dropout_out():
    model, plain = make_model(dropout=0.5), make_model()
    assert model.training
    options = {"n_tokens": 20, "seed": 1}
    tokenizer = CharTokenizer("abcdefghijk")
    assert "".join(generate(model, tokenizer, "abc", **options)) == "".join(
        generate(plain, tokenizer, "abc", **options)
    )


def test_an_empty_prompt_starts_from_a_line_break_or_the_first_token():
    model = make_model()
    with_break = CharTokenizer("abcde\nfghij")
    assert "".join(generate(model, with_break, "", 20, seed=3)) == "".join(
        generate(model, with_break, "\n", 20, seed=3)
    )
    without = CharTokenizer("abcdefghijk")
    assert "".join(generate(model, without, "", 20, seed=3)) == "".join(generate(model, without, "a", 20, seed=3))
    with pytest.raises(ValueError, match="no token to start from"):
        list(generate_ids(model, [], 3))


def test_the_prompt_may_only_have_characters_that_the_tokenizer_knows():
    with pytest.raises(ValueError, match="'é'"):
        list(generate(make_model(), CharTokenizer("abcdefghijk"), "abé", 3))


def test_a_list_of_prompts_gives_what_each_gives_alone():
    """Whatever their lengths, and whether or not they stop early; prompt i draws with seed + i."""
    model = make_model(stir=0.5)
    prompts = ["a", "", "abcdefghijkabcdefg", "kk", "k", "cab"]
    for stop in ((), "c", ["ab", "f"]):
        pieces = list(generate(model, LETTERS, prompts, 40, seed=4, stop=stop))
        assert all(len(row) == len(prompts) for row in pieces)
        together = ["".join(column) for column in zip(*pieces, strict=True)]
        assert together == [written(p, model, n_tokens=40, seed=4 + i, stop=stop) for i, p in enumerate(prompts)]
        if stop:
            assert len({len(text) for text in together}) > 2
    assert len(set(together)) > 1
    with pytest.raises(ValueError, match="no prompt"):
        generate(model, LETTERS, [])


def test_a_text_can_be_added_to_and_continued():
    """What was written and added is one text, of which nothing is read twice."""
    model, watched = make_model(), make_model()
    n_read = []
    watched.embedding.register_forward_hook(lambda _, args, out: n_read.append(args[0].shape[1]))
    writers, text = [Writer(m, LETTERS, Sampling(0)) for m in (model, watched)], ""
    for added in ("ab", "", "c"):
        text += added
        expected = LETTERS.decode(generate_ids(model, LETTERS.encode(text), 2, temperature=0))
        for writer in writers:
            writer.add([added])
            assert "".join(piece for (piece,) in writer.write(2)) == expected
        text += expected
    assert sum(n_read) == len(text) - 1, "the last one is drawn, but not read yet"
    with pytest.raises(ValueError, match="'é'"):
        writer.add(["é"])
    with pytest.raises(ValueError, match="2 texts can't be appended to the 1 that"):
        writer.add(["a", "b"])


# --- stop strings -------------------------------------------------------------------------------------------


def ends_at(text, strings):
    """Return where a text ends: before the longest string that is complete at the first character where any is."""
    for end in range(len(text) + 1):
        found = [string for string in strings if text[:end].endswith(string)]
        if found:
            return end - max(map(len, found))
    return None


@given(st.data())
def test_no_part_of_a_stop_string_is_ever_shown(data):
    """However the text is cut into pieces."""
    pieces = data.draw(st.lists(st.text("abc", max_size=4), max_size=12))
    strings = data.draw(st.lists(st.text("abc", min_size=1, max_size=5), max_size=3))
    whole = "".join(pieces)
    end = ends_at(whole, strings)
    text, shown = StopFilter(strings), ""
    for piece in pieces:
        shown += text.feed(piece)
        assert whole[: len(whole) if end is None else end].startswith(shown)
    assert text.stopped == (end is not None)
    assert shown + text.flush() == whole[:end]


def test_text_is_held_back_no_longer_than_needed():
    text = StopFilter(["END", "\n\n"])
    assert [text.feed(c) for c in "aENE\nEN"] == ["a", "", "", "EN", "E", "\n", ""]
    assert (text.flush(), text.stopped) == ("EN", False)
    assert [StopFilter([]).feed("any"), StopFilter(["x"]).feed("axb")] == ["any", "a"]


def test_a_text_ends_before_its_stop_string():
    model = make_model()
    free = written("ab", model, n_tokens=60, seed=3)
    for stop in (free[10:13], free[5], [free[20:22], free[8:12]]):
        strings = [stop] if isinstance(stop, str) else stop
        got = list(generate(model, LETTERS, "ab", 60, seed=3, stop=stop))
        assert "".join(got) == free[: ends_at(free, strings)]
        assert all(got)
    assert written("ab", model, n_tokens=60, seed=3, stop="z") == free
    cut = written("ab", model, n_tokens=30, seed=3, stop=free[29:31])  # begun, but not completed
    assert cut == free[:30]
    with pytest.raises(ValueError, match="at least one character"):
        generate(model, LETTERS, "ab", stop="")


# --- streaming ----------------------------------------------------------------------------------------------


@pytest.fixture
def scripted(monkeypatch):
    """Return a function that makes the next tokens drawn those of a list."""

    def script(ids):
        following = iter(ids)
        monkeypatch.setattr(Sampling, "draw", lambda self, logits, generator=None: next(following))

    return script


def test_characters_of_several_bytes_come_whole(scripted):
    """One byte per token: a piece is a whole character or nothing, and there is no replacement character."""
    tokenizer = BPETokenizer()
    model = make_model(vocab_size=256)
    text = "né 東京 😀𝄞, é"
    scripted(text.encode())
    pieces = list(generate(model, tokenizer, "x", len(text.encode())))
    assert pieces == list(text)


def test_a_character_cut_off_by_the_end_is_left_out(scripted):
    model = make_model(vocab_size=256)
    scripted("a😀".encode())
    assert written("x", model, BPETokenizer(), 4) == "a"
    scripted(b"a\xff\x80b")  # bytes that are no UTF-8 at all are shown as such
    assert written("x", model, BPETokenizer(), 4) == "a\ufffd\ufffdb"


def test_a_stop_string_that_spans_tokens_and_bytes(scripted):
    model = make_model(vocab_size=256)
    scripted("ab😀cd".encode())
    pieces = list(generate(model, BPETokenizer(), "x", 9, stop="b😀c"))
    assert pieces == ["a"]


@pytest.mark.parametrize("n_tokens", [0, 1, 100])
def test_pieces_are_whole_characters_and_join_to_the_decoded_text(n_tokens):
    """The bytes of a cut character wait for the rest of it, or become a replacement character, or are left out."""
    tokenizer = BPETokenizer.train("é ü ñ 東京 東京 𝄞 𝄞 😀😀" * 3, vocab_size=266)
    model = make_model(vocab_size=tokenizer.vocab_size, stir=0)
    with mg.no_grad():  # make lead bytes of UTF-8 and those that follow them likely
        model.blocks[1].norm_ffn.bias.copy_(mg.ones(8))
        for token in [*range(0x80, 0xF5), 256, 260]:
            model.embedding.token.weight[token] += 0.5
    pieces = list(generate(model, tokenizer, "東", n_tokens, temperature=1.0, seed=5))
    generator = mg.Generator().manual_seed(5)
    ids = list(generate_ids(model, tokenizer.encode("東"), n_tokens, generator=generator))
    assert len(ids) == n_tokens
    assert "".join(pieces) == "".join(map(tokenizer.stream_decoder().feed, ids))
    assert all(pieces)
    if n_tokens == 100:
        assert len(pieces) < 100
        assert any(ord(character) > 127 and character != "\ufffd" for piece in pieces for character in piece)


def test_pieces_come_one_by_one():
    model = make_model()
    pieces = generate(model, CharTokenizer("abcdefghijk"), "a", 10**9, seed=1)
    assert len([next(pieces) for _ in range(5)]) == 5


# --- the command line ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run's directory with an untrained model of letters, spaces and line breaks."""
    folder = tmp_path_factory.mktemp("run")
    tokenizer = CharTokenizer(" \n/abcdefgh")
    save_checkpoint(folder / "best.safetensors", make_model(stir=0.3), tokenizer)
    return folder


@pytest.fixture
def say(run, capsys, monkeypatch):
    """Return a function that runs ``transformer generate`` with some standard input: (exit code, out, err)."""

    def call(*options, stdin=""):
        source = stdin if isinstance(stdin, io.TextIOBase) else io.StringIO(stdin)
        monkeypatch.setattr(sys, "stdin", source)
        code = main(["generate", "--out", str(run), "--seed", "5", *options])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return call


def stdin_of(content):
    """Return a standard input with these bytes."""
    return io.TextIOWrapper(io.BytesIO(content), encoding="ascii")


def test_a_long_text_slides_and_says_so(say):
    assert say("--prompt", "abc", "--tokens", "6")[2] == ""  # the last token was drawn, not read
    code, out, err = say("--prompt", "abc", "--tokens", "7")
    assert (code, len(out)) == (0, 11)
    assert re.fullmatch(r"note: .* longer than the 8 tokens .*\n", err)
    assert "past the 8 tokens" in say("--prompt", "abc", "--tokens", "30", "--window", "20")[2]
    assert "longer than the 4 tokens" in say("--prompt", "abcdefgh", "--tokens", "1", "--window", "4")[2]


def test_a_prompt_from_standard_input(say):
    expected = say("--prompt", "ab c", "--tokens", "9")
    for content in (b"ab c", b"ab c\n", b"ab c\r\n", b"\xef\xbb\xbfab c"):
        assert say("--prompt", "-", "--tokens", "9", stdin=stdin_of(content)) == expected
    assert say("--prompt", "-", "--tokens", "9", stdin="ab c") == expected
    code, _, err = say("--prompt", "-", stdin=stdin_of(b"ab\xff"))
    assert (code, err) == (2, "transformer: standard input is not UTF-8: byte 0xff at offset 2\n")


def test_several_prompts_are_continued_side_by_side(say):
    code, out, _ = say("--prompt", "abc", "--prompt", "d", "--tokens", "9")
    one = say("--prompt", "abc", "--tokens", "9")[1]
    two = say("--prompt", "d", "--tokens", "9", "--seed", "6")[1]
    assert (code, out) == (0, f"--- 1\n{one}--- 2\n{two}")


def test_stop_strings_on_the_command_line(say):
    free = say("--tokens", "60")[1][:-1]
    assert "\n" in free[5:]
    assert say("--tokens", "60", "--stop", r"\n")[1] == free[: free.index("\n")] + "\n"
    several = say("--tokens", "60", "--stop", free[9:12], "--stop", free[7:9])[1]
    assert several == free[: ends_at(free, [free[9:12], free[7:9]])] + "\n"
    assert [unescaped(text) for text in (r"a\nb\tc", r"\\n", r"\\\n", "\\x")] == ["a\nb\tc", "\\n", "\\\n", "\\x"]


def test_lines_are_continued_as_one_text(run, say):
    """Each line, and what was written before, is what the next is continued from."""
    code, out, err = say("--interactive", "--tokens", "3", "--temperature", "0", stdin="ab\n\nc\n")
    assert (code, err.count("note:")) == (0, 1)
    first, second, third = re.fullmatch(r"(.{3})\n(.{3})\n(.{3})\n", out, re.DOTALL).groups()
    for prompt, expected in (("ab", first), (f"ab{first}", second), (f"ab{first}{second}c", third)):
        alone = say("--prompt", prompt, "--tokens", "3", "--temperature", "0")[1]
        assert alone == prompt + expected + "\n"
    with_prompt = say("--interactive", "--prompt", "ab", "--tokens", "3", "--temperature", "0", stdin="\nc\n")[1]
    assert with_prompt == "ab" + out


def test_commands_within_a_talk(say):
    options = ("--interactive", "--tokens", "3")
    once = say(*options, stdin="ab")[1]
    assert say(*options, stdin="ab\n/reset\nab\n/quit\nab\n")[1] == once * 2
    code, out, err = say(*options, stdin="/wat\nabé\nab\n")
    assert (code, out) == (0, once), "what was refused leaves no trace"
    assert "/reset" in err
    assert "'é'" in err
    assert say(*options, "--tokens", "20", stdin="//a\n")[1] == say("--prompt", "/a", "--tokens", "20")[1][2:]
    assert say(*options, stdin="")[:2] == (0, "")


def test_ctrl_c_ends_what_is_being_written_and_ctrl_c_at_the_prompt_leaves(say, monkeypatch):
    """The text stays as far as it was written, and can be continued."""
    free = say("--interactive", "--tokens", "7", stdin="ab")[1]
    draw, count = Sampling.draw, 0

    def draw_and_interrupt(self, logits, generator=None):
        nonlocal count
        count += 1
        if count == 3:
            signal.raise_signal(signal.SIGINT)
        return draw(self, logits, generator)

    monkeypatch.setattr(Sampling, "draw", draw_and_interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, where a job is in the background
    assert say("--interactive", "--tokens", "4", stdin="ab\n\n")[1] == f"{free[:3]}\n{free[3:7]}\n"
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler

    def interrupted(prompt=""):
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", interrupted)
    assert say("--interactive") == (0, "", "")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--interactive", "--prompt", "-"], "--interactive takes one --prompt at most"),
        (["--interactive", "--prompt", "a", "--prompt", "b"], "--interactive takes one --prompt at most"),
        (["--window", "0"], "window must be at least 1"),
        (["--stop", ""], "stop string"),
    ],
)
def test_options_that_make_no_sense(say, options, says):
    code, out, err = say(*options)
    assert (code, out) == (2, "")
    assert says in err
    assert err.startswith("transformer: ")
    assert err.count("\n") == 1
