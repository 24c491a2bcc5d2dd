"""The tokenizers: exact round trips, merges equal to a naive trainer's, streaming, and saved descriptions."""

import json
import random
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer.tokenizer import BPETokenizer, CharTokenizer, Tokenizer, tokenizer_from_dict
from transformer.utf8 import legible
from transformer.words import split_words

VERSE = """How doth the little crocodile
Improve his shining tail,
And pour the waters of the Nile
On every golden scale!

How cheerfully he seems to grin,
How neatly spreads his claws,
And welcomes little fishes in,
With gently smiling jaws!
"""

# Every code point, with the ones that are hard to get right made frequent.
any_character = st.one_of(
    st.characters(),
    st.sampled_from(" \n\r\t\0_'aab1\u00e9\u2423\u3000\ufeff\ufffd\U0001f642\u0301\u00b2\x1c\x85"),
    st.integers(0xD800, 0xDFFF).map(chr),
)
any_text = st.text(any_character, max_size=60)
repetitive_text = st.text(st.sampled_from("aab \n\u00e9"), max_size=80)


@pytest.fixture(scope="module")
def verse_tokenizer() -> BPETokenizer:
    return BPETokenizer.train(VERSE, 280)


def naive_merges(text: str, vocab_size: int) -> list[tuple[int, int]]:
    """Byte-pair encoding as it is defined: count all pairs anew before each merge."""
    words = [list(word.encode("utf-8", "surrogatepass")) for word in split_words(text)]
    merges: list[tuple[int, int]] = []
    while 256 + len(merges) < vocab_size:
        counts = Counter(pair for word in words for pair in pairwise(word))
        if not counts or max(counts.values()) < 2:
            break
        best = min(pair for pair, count in counts.items() if count == max(counts.values()))
        words = [replace_pair(word, best, 256 + len(merges)) for word in words]
        merges.append(best)
    return merges


def replace_pair(ids: list[int], pair: tuple[int, int], new_id: int) -> list[int]:
    replaced: list[int] = []
    rest = list(ids)
    while rest:
        if tuple(rest[:2]) == pair:
            replaced.append(new_id)
            del rest[:2]
        else:
            replaced.append(rest.pop(0))
    return replaced


def naive_encode(merges: list[tuple[int, int]], text: str) -> list[int]:
    """Apply every merge, in the order of learning, to every word."""
    ids: list[int] = []
    for word in split_words(text):
        word_ids = list(word.encode("utf-8", "surrogatepass"))
        for index, pair in enumerate(merges):
            word_ids = replace_pair(word_ids, pair, 256 + index)
        ids += word_ids
    return ids


def streamed(tokenizer: Tokenizer, ids: list[int]) -> str:
    stream = tokenizer.stream_decoder()
    return "".join([*map(stream.feed, ids), stream.flush()])


# --- words


@given(any_text)
def test_words_partition_every_text(text: str) -> None:
    words = split_words(text)
    assert "".join(words) == text
    assert all(1 <= len(word) <= 32 for word in words)


def test_every_single_character_is_a_word_of_its_own() -> None:
    for code_point in range(0x110000):
        assert split_words(chr(code_point)) == [chr(code_point)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("   x", ["  ", " x"]),
        ("a b\r\nc", ["a", " b", "\r\n", "c"]),
        ("if x:\n    return _y1", ["if", " x", ":", "\n   ", " return", " _", "y", "1"]),
        ("\t\tz\0", ["\t\t", "z", "\0"]),
        ("x = 10 ** 2  ", ["x", " =", " 10", " **", " 2", "  "]),
        ("a" * 70, ["a" * 31, "a" * 31, "a" * 8]),
        (" " * 40 + "a", [" " * 32, " " * 7, " a"]),
    ],
)
def test_words_of(text: str, words: list[str]) -> None:
    assert split_words(text) == words


# --- byte-pair encoding: training


@given(st.one_of(repetitive_text, any_text), st.integers(256, 290))
def test_training_equals_the_naive_trainer(text: str, vocab_size: int) -> None:
    assert BPETokenizer.train(text, vocab_size).merges == naive_merges(text, vocab_size)


def test_training_equals_the_naive_trainer_on_prose() -> None:
    tokenizer = BPETokenizer.train(VERSE, 280)
    assert tokenizer.vocab_size == 280
    assert tokenizer.merges == naive_merges(VERSE, 280)


@given(repetitive_text, st.integers(0, 12), st.integers(0, 12))
def test_fewer_merges_are_a_prefix_of_more(text: str, few: int, more: int) -> None:
    small, large = (BPETokenizer.train(text, 256 + count) for count in sorted((few, more)))
    assert large.merges[: len(small.merges)] == small.merges
    assert large.with_merges(len(small.merges)).encode(text) == small.encode(text)


def test_ties_go_to_the_smaller_ids() -> None:
    # (c, d), (a, b) and (a, a) occur twice each
    assert BPETokenizer.train("cd;cd;ab;ab;aa;aa", 259).merges == [(97, 97), (97, 98), (99, 100)]


def test_training_stops_when_no_pair_occurs_twice() -> None:
    tokenizer = BPETokenizer.train("abab", 300)
    assert tokenizer.merges == [(97, 98)]
    assert tokenizer.vocab_size == 257
    assert BPETokenizer.train("", 300).vocab_size == 256


def test_merges_stay_within_words() -> None:
    tokenizer = BPETokenizer.train("to be or not to be " * 20, 400)
    tokens = {tokenizer.token_bytes(id) for id in range(256, tokenizer.vocab_size)}
    assert {b" be", b" to", b" not"} <= tokens
    assert not any(b" " in token[1:] for token in tokens)


@pytest.mark.parametrize("vocab_size", [-1, 0, 255, 1_000_001])
def test_impossible_vocabulary_sizes_are_refused(vocab_size: int) -> None:
    with pytest.raises(ValueError, match=f"must be from 256 .* not {vocab_size:,}"):
        BPETokenizer.train("abab", vocab_size)


def test_with_merges_refuses_what_it_does_not_have(verse_tokenizer: BPETokenizer) -> None:
    assert verse_tokenizer.with_merges(0).vocab_size == 256
    assert verse_tokenizer.with_merges(24).merges == verse_tokenizer.merges
    for count in (-1, 25):
        with pytest.raises(ValueError, match="has 24 merges"):
            verse_tokenizer.with_merges(count)


# --- byte-pair encoding: texts and ids


@given(any_text)
def test_every_text_round_trips(verse_tokenizer: BPETokenizer, text: str) -> None:
    assert verse_tokenizer.decode(verse_tokenizer.encode(text)) == text


@given(training_text=any_text, text=any_text)
def test_every_text_round_trips_whatever_the_training_text(training_text: str, text: str) -> None:
    tokenizer = BPETokenizer.train(training_text + text, 280)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.decode(tokenizer.encode(training_text)) == training_text


@pytest.mark.parametrize(
    "text", ["\ud800", "a\udfffb", "\ud83d\ude42", "\U0001f642\ud83d", "\0", "\r\n", "\ufeffx"]
)
def test_hard_texts_round_trip(verse_tokenizer: BPETokenizer, text: str) -> None:
    ids = verse_tokenizer.encode(text)
    assert verse_tokenizer.decode(ids) == text
    assert verse_tokenizer.decode_bytes(ids) == text.encode("utf-8", "surrogatepass")
    assert streamed(verse_tokenizer, ids) == text


@given(repetitive_text, repetitive_text)
def test_encoding_applies_the_merges_in_order(training_text: str, text: str) -> None:
    tokenizer = BPETokenizer.train(training_text, 276)
    assert tokenizer.encode(text) == naive_encode(tokenizer.merges, text)
    assert tokenizer.encode(text + text) == naive_encode(tokenizer.merges, text + text)  # with a warm cache


def test_encoding_shortens_the_training_text(verse_tokenizer: BPETokenizer) -> None:
    assert len(verse_tokenizer.encode(VERSE)) < 0.75 * len(VERSE)


def test_a_full_word_cache_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transformer.tokenizer._MAX_REMEMBERED", 3)
    tokenizer = BPETokenizer.train(VERSE, 280)
    assert tokenizer.encode(VERSE) == naive_encode(tokenizer.merges, VERSE)
    assert len(tokenizer._packed_words) <= 3
    assert len(tokenizer._packed_chunks) <= 3


def test_encoding_does_not_hand_out_its_cache() -> None:
    tokenizer = BPETokenizer.train("abab", 257)
    tokenizer.encode("abab").append(0)
    assert tokenizer.encode("abab") == [256, 256]


@given(st.lists(st.integers(0, 279), max_size=40))
def test_streaming_equals_decoding_for_any_ids(verse_tokenizer: BPETokenizer, ids: list[int]) -> None:
    assert streamed(verse_tokenizer, ids) == verse_tokenizer.decode(ids)


@given(any_text.filter(lambda text: "\ufffd" not in text))
def test_streaming_never_shows_a_part_of_a_character(text: str) -> None:
    tokenizer = BPETokenizer()  # only bytes, so that every longer character arrives in parts
    stream = tokenizer.stream_decoder()
    pieces = [stream.feed(id) for id in tokenizer.encode(text)]
    assert "".join(pieces) == text
    assert stream.flush() == ""


def test_streaming_marks_what_stays_unfinished_and_starts_afresh() -> None:
    tokenizer = BPETokenizer()
    stream = tokenizer.stream_decoder()
    assert [stream.feed(id) for id in "\U0001f642".encode()[:3]] == ["", "", ""]
    assert stream.flush() == "\ufffd"
    assert stream.feed(ord("a")) == "a"
    assert tokenizer.decode([0xFF, 0x61, 0xC3]) == "\ufffda\ufffd"


# --- characters


@given(any_text)
def test_characters_round_trip(text: str) -> None:
    tokenizer = CharTokenizer.train(text + "x")
    ids = tokenizer.encode(text)
    assert len(ids) == len(text)
    assert tokenizer.decode(ids) == text
    assert streamed(tokenizer, ids) == text


def test_characters_are_sorted() -> None:
    tokenizer = CharTokenizer.train("banana\u00e9 \n")
    assert tokenizer.characters == ["\n", " ", "a", "b", "n", "\u00e9"]
    assert tokenizer.vocab_size == 6
    assert tokenizer.encode("nab") == [4, 2, 3]


def test_unknown_characters_are_named() -> None:
    tokenizer = CharTokenizer.train("abc")
    with pytest.raises(
        ValueError, match=r"the character 'X' \(first at position 2\) never .* contains it, or .*BPE"
    ):
        tokenizer.encode("abXaX")
    with pytest.raises(ValueError, match=r"'2', '1', '5', '4', '3' and 2 more \(first at position 1\).* them"):
        tokenizer.encode("a2154367")
    with pytest.raises(ValueError, match=r"'\\ud800'"):
        tokenizer.encode("\ud800")
    with pytest.raises(ValueError, match=r"the character 'X' \(first at position 1,007\)"):
        list(tokenizer.encode_blocks(["abc" * 2, "a" * 1000, "aX"]))


def test_a_character_tokenizer_needs_distinct_characters() -> None:
    with pytest.raises(ValueError, match="at least one character"):
        CharTokenizer.train("")
    with pytest.raises(ValueError, match="'a' is in the vocabulary more than once"):
        CharTokenizer(["b", "a", "c", "a"])
    with pytest.raises(ValueError, match="'ab' is not one character"):
        CharTokenizer(["ab"])


# --- both


@pytest.mark.parametrize("tokenizer", [CharTokenizer.train("abc"), BPETokenizer.train("abab", 257)], ids=repr)
def test_ids_outside_the_vocabulary_are_refused(tokenizer: Tokenizer) -> None:
    size = tokenizer.vocab_size
    for bad in (-1, size):
        message = f"the token id {bad} is outside the vocabulary of {size} tokens"
        with pytest.raises(ValueError, match=message):
            tokenizer.decode([0, bad])
        with pytest.raises(ValueError, match=message):
            tokenizer.token_text(bad)
        with pytest.raises(ValueError, match=message):
            tokenizer.stream_decoder().feed(bad)


@given(any_text, any_text)
def test_saved_as_json_it_gives_the_same_ids(training_text: str, text: str) -> None:
    both = training_text + text + "x"
    for tokenizer in (BPETokenizer.train(both, 280), CharTokenizer.train(both)):
        loaded = tokenizer_from_dict(json.loads(json.dumps(tokenizer.to_dict())))
        assert type(loaded) is type(tokenizer)
        assert loaded.vocab_size == tokenizer.vocab_size
        assert loaded.encode(text) == tokenizer.encode(text)
        assert loaded.to_dict() == tokenizer.to_dict()


def doubling_merges(count: int) -> list[list[int]]:
    """Each token is two of the one before it: the lengths are the powers of two."""
    return [[97, 97], *([256 + index, 256 + index] for index in range(count - 1))]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "described by a dictionary, not by NoneType"),
        ([], "described by a dictionary, not by list"),
        ({}, 'is "char" or "bpe", not None'),
        ({"kind": ["bpe"]}, 'is "char" or "bpe", not'),
        ({"kind": "word"}, "not 'word'"),
        ({"kind": "char"}, 'the "characters" of a tokenizer must be a list, not NoneType'),
        ({"kind": "char", "characters": "abc"}, "must be a list, not str"),
        ({"kind": "char", "characters": []}, "at least one character"),
        ({"kind": "char", "characters": ["a", "bc"]}, "'bc' is not one character"),
        ({"kind": "char", "characters": ["a", ""]}, "'' is not one character"),
        ({"kind": "char", "characters": ["a", 7]}, "7 is not one character"),
        ({"kind": "char", "characters": [["a"]]}, "is not one character"),
        ({"kind": "char", "characters": ["a", "b", "a"]}, "'a' is in the vocabulary more than once"),
        ({"kind": "char", "characters": ["a"] * 1_000_001}, "1,000,001, more than 1,000,000"),
        ({"kind": "bpe"}, 'the "merges" of a tokenizer must be a list, not NoneType'),
        ({"kind": "bpe", "merges": {"0": [1, 2]}}, "must be a list, not dict"),
        ({"kind": "bpe", "merges": [[1, 2, 3]]}, r"a pair of token ids, not \[1, 2, 3\]"),
        ({"kind": "bpe", "merges": [7]}, "a pair of token ids, not 7"),
        ({"kind": "bpe", "merges": ["ab"]}, "a pair of token ids, not 'ab'"),
        ({"kind": "bpe", "merges": [[1, 2.0]]}, "a pair of token ids"),
        ({"kind": "bpe", "merges": [[1, True]]}, "a pair of token ids"),
        (
            {"kind": "bpe", "merges": [[97, 98], [97, 257]]},
            "merge 1 joins .* 97 and 257, but only those below 257",
        ),
        ({"kind": "bpe", "merges": [[256, 97]]}, "merge 0 joins .* only those below 256"),
        ({"kind": "bpe", "merges": [[-1, 97]]}, "merge 0 joins"),
        ({"kind": "bpe", "merges": [[97, 98], [97, 98]]}, "merge 1 joins .* a second time"),
        ({"kind": "bpe", "merges": doubling_merges(20)}, "merge 7 makes a token of 256 bytes"),
        ({"kind": "bpe", "merges": [[0, 0]] * 1_000_001}, "1,000,001, more than 1,000,000"),
    ],
)
def test_false_descriptions_are_refused(data: object, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        tokenizer_from_dict(data)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250


scalars = st.none() | st.booleans() | st.integers(-3, 300) | st.floats() | st.text(max_size=2)
json_values = scalars | st.lists(scalars | st.lists(scalars | st.integers(0, 258), max_size=3), max_size=4)


@settings(max_examples=200)
@given(
    st.fixed_dictionaries(
        {"kind": st.sampled_from(["char", "bpe"])},
        optional={"merges": json_values, "characters": json_values},
    )
)
def test_random_descriptions_give_a_tokenizer_or_a_value_error(data: dict[str, object]) -> None:
    try:
        tokenizer = tokenizer_from_dict(data)
    except ValueError:
        return
    assert tokenizer.to_dict().items() <= data.items()


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (b" the", "␣the"),
        (b"\r\n\t", r"\r\n\t"),
        (b"\\n", r"\\n"),
        ("␣".encode(), r"\u2423"),
        ("é".encode(), "é"),
        (b"\xc3", r"\xc3"),
        ("é".encode() + b"\xe2\x82", r"é\xe2\x82"),
        ("\x85".encode(), r"\u0085"),
        (b"\0", r"\u0000"),
        ("\U000e0001".encode(), r"\U000e0001"),
        ("\ud800".encode("utf-8", "surrogatepass"), r"\xed\xa0\x80"),
    ],
)
def test_legible(token: bytes, text: str) -> None:
    assert legible(token) == text


@given(st.binary(max_size=6), st.binary(max_size=6))
def test_legible_text_is_printable_and_tells_tokens_apart(first: bytes, second: bytes) -> None:
    assert legible(first).isprintable()
    assert " " not in legible(first)
    assert (legible(first) == legible(second)) == (first == second)


def test_legible_tells_all_short_tokens_apart() -> None:
    generator = random.Random(0)
    alphabet = [
        b"\\",
        b"x",
        b"u",
        b"n",
        b" ",
        b"\n",
        b"8",
        b"5",
        b"0",
        b"\x85",
        b"\xc2",
        "␣".encode(),
        b"2",
        b"4",
        b"3",
    ]
    tokens = {b"".join(generator.choices(alphabet, k=generator.randrange(1, 7))) for _ in range(30_000)}
    assert len({legible(token) for token in tokens}) == len(tokens)
