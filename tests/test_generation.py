"""Generation: what is drawn, where it stops, and that its pieces are whole characters."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from models import LETTERS, VOCABULARY, array, ends_at, make_model, same, uncached

import minigrad as mg
from transformer import BPETokenizer, CharTokenizer, generate
from transformer.generation import Sampling, StopFilter, Writer, generate_ids


def written(prompt, model, tokenizer=LETTERS, n_tokens=20, **options):
    """Return the continuation of a prompt in one piece."""
    return "".join(generate(model, tokenizer, prompt, n_tokens, **options))


# --- generating -------------------------------------------------------------------------------------


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


# --- stop strings -----------------------------------------------------------------------------------


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


# --- streaming --------------------------------------------------------------------------------------


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
