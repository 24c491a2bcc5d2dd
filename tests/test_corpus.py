"""Texts read in blocks, the tokens of long texts in files, and how much memory all that takes."""

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import minigrad as mg
from transformer import corpus as corpus_module
from transformer import merges, tokens
from transformer.baselines import ngram_baselines
from transformer.corpus import Corpus, DataError
from transformer.data import default_corpus, random_batch, split_text
from transformer.text import Text, excerpt, make_tokenizer
from transformer.tokenizer import BPETokenizer, CharTokenizer, smallest_dtype
from transformer.words import count_words, split_chunks, split_words, whole_words

any_character = st.one_of(
    st.characters(exclude_categories=["Cs"]), st.sampled_from(" \n\r\t\0a1\u00e9\u3000\ufeff\U0001f642\x1c")
)
any_text = st.text(any_character, max_size=60)
spaced_text = st.text(st.sampled_from("ab1.'  \n\t\u00e9"), max_size=120)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of five bytes, in which every difficulty of a border occurs in a short text."""
    monkeypatch.setattr(corpus_module, "BLOCK_BYTES", 5)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache directory of the test's own, in which tokens are kept from 100 characters on."""
    monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tokens, "KEPT_FROM", 100)
    return tmp_path / "cache"


def kept(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir()) if cache.exists() else []


# --- a text in blocks


@pytest.mark.usefixtures("small_blocks")
@given(st.lists(any_text.filter(lambda text: text.strip("\ufeff").strip()), min_size=1, max_size=3), st.data())
def test_a_corpus_is_its_text(tmp_path: Path, texts: list[str], data: st.DataObject) -> None:
    paths = []
    for number, text in enumerate(texts):
        paths.append(tmp_path / str(number))
        paths[-1].write_bytes(text.encode())
    whole = "\n".join(text.removeprefix("\ufeff") for text in texts)
    start, stop = (data.draw(st.integers(-len(whole) - 2, len(whole) + 2)) for _ in range(2))
    for corpus in (Corpus(whole), Corpus.read(paths)):
        assert str(corpus) == "".join(corpus.blocks()) == whole
        assert len(corpus) == len(whole)
        assert corpus.n_bytes() == len(whole.encode())
        assert corpus.alphabet == "".join(sorted(set(whole)))
        part = corpus[start:stop]
        assert (str(part), len(part)) == (whole[start:stop], len(whole[start:stop]))
        assert str(part[1:-1]) == whole[start:stop][1:-1]
        assert all(0 < len(block) <= 5 for block in corpus.blocks())


def test_a_text_in_memory_may_hold_what_no_file_can() -> None:
    assert str(Corpus("a\ud800b")) == "a\ud800b"
    assert str(Corpus("\ufeffx")) == "\ufeffx"
    assert (len(Corpus("")), str(Corpus("")), Corpus("").alphabet) == (0, "", "")
    with pytest.raises(TypeError, match=r"by a slice.*not by int"):
        Corpus("abc")[0]  # type: ignore[index]
    with pytest.raises(ValueError, match="in steps of 2"):
        Corpus("abc")[::2]


def test_the_digest_is_of_the_text_and_the_slice(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfone")
    (tmp_path / "b").write_bytes(b"two")
    corpus = Corpus.read([tmp_path / "a", tmp_path / "b"])
    assert corpus.digest == Corpus("one\ntwo").digest
    digests = [c.digest for c in (corpus, corpus[:3], corpus[3:], Corpus("one\ntwO"), Corpus("one\ntwo "))]
    assert len(set(digests)) == len(digests)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("position", range(12))
def test_the_bad_byte_is_found_wherever_the_blocks_end(tmp_path: Path, position: int) -> None:
    good = ("\u00e9" * position).encode()
    path = tmp_path / "text"
    for bad, offset in ((b"\xff", 0), (b"\xe2\x82", 0), (b"a\xc3(", 1)):
        path.write_bytes(good + bad + b"a" * 3)
        with pytest.raises(DataError, match=f"byte 0x{bad[offset]:02x} at offset {len(good) + offset} is invalid"):
            Corpus.read(path)


def test_a_file_that_changes_or_goes_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"one two three")
    corpus = Corpus.read(path)
    for changed, later in ((b"one two", 0), (b"one two thr3e", 9)):
        before = path.stat().st_mtime
        path.write_bytes(changed)
        os.utime(path, (before + later, before + later))
        with pytest.raises(DataError, match=r"text' was changed while it was being used: start again"):
            str(corpus)
    path.unlink()
    with pytest.raises(DataError, match=r"text': no such file"):
        str(corpus)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_read_once_and_kept(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = subprocess.Popen([sys.executable, "-c", f"open({str(pipe)!r}, 'wb').write(b'through a pipe')"])
    corpus = Corpus.read(pipe)
    assert writer.wait() == 0
    assert [str(corpus), str(corpus[:7])] == ["through a pipe", "through"]


# --- words across blocks


def in_blocks(text: str, cuts: list[int]) -> list[str]:
    places = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return [text[start:stop] for start, stop in pairwise(places)]


@pytest.mark.parametrize("looked_back", [0, 6, 4096])
@given(
    st.one_of(spaced_text, any_text, spaced_text.map(lambda text: text.replace(" ", ""))), st.lists(st.integers(0))
)
def test_no_word_is_cut_at_the_end_of_a_block(looked_back: int, text: str, cuts: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("transformer.words._LOOKED_BACK", looked_back)
        blocks = list(whole_words(in_blocks(text, cuts)))
    assert "".join(blocks) == text
    assert [word for block in blocks for word in split_words(block)] == split_words(text)


@pytest.mark.parametrize("looked_back", [0, 4096])
def test_a_text_without_spaces_is_cut_too(monkeypatch: pytest.MonkeyPatch, looked_back: int) -> None:
    monkeypatch.setattr("transformer.words._LOOKED_BACK", looked_back)
    for text in ("\u6771" * 1000, " " * 1000, "a1" * 500, "\n" * 500 + " " * 33 + "x" * 500):
        blocks = list(whole_words(in_blocks(text, list(range(0, 1000, 50)))))
        assert [word for block in blocks for word in split_words(block)] == split_words(text)
        assert max(map(len, blocks)) < 150


@given(st.one_of(spaced_text, any_text))
def test_chunks_are_whole_words(text: str) -> None:
    assert [word for chunk in split_chunks(text) for word in split_words(chunk)] == split_words(text)


@given(spaced_text, spaced_text, st.lists(st.integers(0)))
def test_blocks_of_a_text_have_the_ids_of_the_text(training_text: str, text: str, cuts: list[int]) -> None:
    for tokenizer in (BPETokenizer.train(training_text, 290), CharTokenizer.train(training_text + text + "x")):
        vectors = list(tokenizer.encode_blocks(in_blocks(text, cuts)))
        assert [id for vector in vectors for id in vector.tolist()] == tokenizer.encode(text)
        assert all(vector.dtype.itemsize == tokenizer.vocab_size // 257 + 1 for vector in vectors)


@given(spaced_text, st.lists(st.integers(0)))
def test_merges_learned_from_blocks_are_those_of_the_text(text: str, cuts: list[int]) -> None:
    assert BPETokenizer.train(in_blocks(text, cuts), 280).merges == BPETokenizer.train(text, 280).merges


def test_of_very_many_words_the_rarest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transformer.words.MAX_WORD_TYPES", 50)
    rare = "".join(f" rare{number:c}" for number in range(97, 110))
    blocks = [" often" * 3 + " twice" * 2 + rare.replace("rare", chr(97 + number)) for number in range(10)]
    counts = count_words(blocks)
    assert (counts[" often"], counts[" twice"]) == (30, 20)
    assert len(counts) <= 50


def test_merging_visits_only_the_words_that_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Byte-pair encoding by its definition would visit every word for every merge: 768 times 6,000 and more."""
    visits = 0
    plain = merges.merge

    def counted(*arguments: object) -> list[int]:
        nonlocal visits
        visits += 1
        return plain(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(merges, "merge", counted)
    text = default_corpus()
    tokenizer = BPETokenizer.train(text, 1024)
    assert tokenizer.vocab_size == 1024
    assert visits < 10 * len(set(split_words(text)))


# --- compact ids


@pytest.mark.parametrize(("n", "dtype"), [(1, mg.uint8), (256, mg.uint8), (257, mg.uint16), (65_536, mg.uint16)])
def test_ids_take_as_few_bytes_as_they_need(n: int, dtype: object) -> None:
    assert smallest_dtype(n) == dtype
    assert smallest_dtype(65_537) == mg.int32


def test_characters_of_every_width() -> None:
    for count in (1, 255, 256, 257, 65_535, 65_536, 70_000):
        characters = [chr(0x20 + number) for number in range(count)]
        tokenizer = CharTokenizer(characters)
        last = characters[-1]
        assert tokenizer.encode(last + characters[0]) == [count - 1, 0]
        (ids,) = tokenizer.encode_blocks([last])
        assert ids.dtype == tokenizer.dtype == smallest_dtype(count), "what a file of tokens says that it holds"
        for unknown in (chr(0x20 + count), "\0", "\U0010ffff"):
            with pytest.raises(ValueError, match="never occurred"):
                tokenizer.encode(last + unknown)


def test_a_text_without_a_window_says_so() -> None:
    assert random_batch(mg.arange(5), 2, context=4)[1].tolist() == [[1, 2, 3, 4]] * 2
    with pytest.raises(ValueError, match="a text of 4 tokens has no window of 4 tokens"):
        random_batch(mg.arange(4), 2, context=4)


def test_batches_of_compact_ids_are_those_of_wide_ones() -> None:
    wide = mg.arange(250)
    compact = mg.frombuffer(bytes(range(250)), dtype=mg.uint8)
    batches = [random_batch(ids, 4, 9, mg.Generator().manual_seed(1)) for ids in (wide, compact)]
    for of_wide, of_compact in zip(*batches, strict=True):
        assert of_compact.dtype == mg.int64
        assert of_compact.tolist() == of_wide.tolist()


# --- tokens in files

VERSE = "How doth the little crocodile improve his shining tail, and pour the waters of the Nile " * 40


def test_tokens_are_kept_and_found_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = BPETokenizer.train(VERSE, 300)
    first = Text.encode(VERSE, tokenizer, 8)
    assert first.kept_in is not None
    assert first.kept_in.parent == cache
    assert len(kept(cache)) == 2  # the training part and the held-out part
    train, held_out = split_text(VERSE)
    assert first.train_ids.tolist() == tokenizer.encode(train)
    assert first.held_out_ids.tolist() == tokenizer.encode(held_out)
    assert first.train_ids.dtype == mg.uint16

    def unused(self: BPETokenizer, blocks: object) -> Iterator[mg.Tensor]:
        raise AssertionError("the tokens were made anew")

    monkeypatch.setattr(BPETokenizer, "encode_blocks", unused)
    done: list[int] = []
    again = Text.encode(VERSE, tokenizer, 8, done.append)
    assert sum(done) == len(VERSE)
    assert again.train_ids.tolist() == first.train_ids.tolist()


def test_another_text_or_tokenizer_has_other_tokens(cache: Path) -> None:
    tokenizer = BPETokenizer.train(VERSE, 300)
    for text, by in ((VERSE, tokenizer), (VERSE + "x", tokenizer), (VERSE, tokenizer.with_merges(9))):
        ids, _ = tokens.encode(Corpus(text), by)
        assert ids.tolist() == by.encode(text)
    ids, _ = tokens.encode(Corpus(VERSE), CharTokenizer.train(VERSE))
    assert ids.dtype == mg.uint8
    assert len(kept(cache)) == 4


def test_a_damaged_file_is_made_anew(cache: Path) -> None:
    tokenizer = CharTokenizer.train(VERSE)
    ids, path = tokens.encode(Corpus(VERSE), tokenizer)
    assert path is not None
    expected, whole = ids.tolist(), path.read_bytes()
    del ids
    assert mg.load(path)["tokens"].tolist() == expected  # an ordinary safetensors file
    middle = len(whole) // 2
    flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    foreign = [b"", whole[:-1], whole + b"\0", whole[:600], b"\xff" * 2000, whole.replace(b'"U8"', b'"U9"', 1)]
    for content in (flipped, *foreign, whole.replace(b"crc32", b"crc64", 1)):
        path.write_bytes(content)
        again, _ = tokens.encode(Corpus(VERSE), tokenizer)
        assert again.tolist() == expected
        del again
        assert path.read_bytes() == whole


def test_without_a_place_to_keep_them_tokens_are_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(tokens, "KEPT_FROM", 100)
    tokenizer = BPETokenizer.train(VERSE, 300)
    ids, path = tokens.encode(Corpus(VERSE), tokenizer)
    assert path is None
    assert ids.tolist() == tokenizer.encode(VERSE)


def test_a_full_disk_leaves_nothing_behind(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = BPETokenizer.train(VERSE, 300)

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tokens, "header", full)
    ids, path = tokens.encode(Corpus(VERSE), tokenizer)
    assert path is None
    assert ids.tolist() == tokenizer.encode(VERSE)
    assert kept(cache) == []


def test_an_unknown_character_leaves_nothing_behind(cache: Path) -> None:
    with pytest.raises(ValueError, match="'H'"):
        tokens.encode(Corpus(VERSE), CharTokenizer.train(VERSE.lower()))
    assert kept(cache) == []


def test_small_texts_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path / "cache"))
    text = Text.encode(VERSE, CharTokenizer.train(VERSE), 8)
    assert text.kept_in is None
    assert kept(tmp_path / "cache") == []


def test_the_cache_stays_in_bounds(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MAX_CACHE_BYTES", 3 * (520 + 200))
    tokenizer = CharTokenizer("abcdef")
    paths = []
    for age, letter in ((50, "a"), (90, "b"), (70, "c")):
        _, path = tokens.encode(Corpus(letter * 200), tokenizer)
        assert path is not None
        os.utime(path, (time.time() - age, time.time() - age))
        paths.append(path)
    for name, age in (("new", 60), ("old", 2 * tokens.ABANDONED_SECONDS)):
        (cache / f".{name}.tmp").write_bytes(b"")
        os.utime(cache / f".{name}.tmp", (time.time() - age, time.time() - age))
    tokens.encode(Corpus("b" * 200), tokenizer)  # used again, so no longer the oldest
    _, newest = tokens.encode(Corpus("d" * 200), tokenizer)
    assert newest is not None
    assert set(kept(cache)) == {paths[0].name, paths[1].name, newest.name, ".new.tmp"}


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"MINIGRAD_CACHE": "/somewhere"}, "/somewhere"),
        ("linux", {"XDG_CACHE_HOME": "/caches"}, "/caches/minigrad"),
        ("linux", {}, "/home/user/.cache/minigrad"),
        ("darwin", {}, "/home/user/Library/Caches/minigrad"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/minigrad/Cache"),
        ("win32", {}, "/home/user/AppData/Local/minigrad/Cache"),
    ],
)
def test_the_cache_is_where_caches_are(
    monkeypatch: pytest.MonkeyPatch, platform: str, variables: dict[str, str], expected: str
) -> None:
    for name in ("MINIGRAD_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(tokens.sys, "platform", platform)
    monkeypatch.setattr(Path, "home", lambda: Path("/home/user"))
    assert tokens.cache_directory() == Path(expected)


# --- long texts


def test_the_sample_of_a_long_text_is_spread_over_it() -> None:
    text = Corpus("".join(chr(97 + number // 100) for number in range(1000)))
    assert "".join(excerpt(text, 1000)) == str(text)
    assert "".join(excerpt(text, 50)) == "".join(chr(97 + number) * 5 for number in range(10))


def test_baselines_of_a_long_text_are_of_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transformer.text.BASELINES_LEARN_FROM", 900)
    text = "abcdefghij" * 300 + VERSE[:1000]
    parts = Text.encode(text, make_tokenizer(text), 8)
    done: list[int] = []
    limited = parts.baselines(limit=150, on_characters=done.append)
    assert sum(done) == 6 * (900 + 150)
    train, held_out = split_text(text)
    assert limited == ngram_baselines(train[-900:], held_out[:150], vocab_size=len(set(text)))


PEAK = textwrap.dedent("""
    import resource, sys
    from transformer.corpus import Corpus
    from transformer.text import Text, make_tokenizer
    unit = 1 if sys.platform == "darwin" else 1024
    peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    before = peak()
    corpus = Corpus.read(sys.argv[1])
    text = Text.encode(corpus, make_tokenizer(corpus, sys.argv[2]), 64)
    assert len(text.train_ids) > 1_000_000
    print(peak() - before)
""")


@pytest.mark.skipif(sys.platform == "win32", reason="peak memory is asked for by getrusage")
@pytest.mark.parametrize(("kind", "in_memory"), [("char", False), ("char", True), ("bpe", False)])
def test_a_long_text_takes_little_memory(tmp_path: Path, kind: str, in_memory: bool) -> None:
    """What a text takes does not grow with it: a str would hold these 30 MB in 120 MB, because of the emoji.

    Where the tokens cannot be kept in a file, they are in memory once.
    """
    size = 6_000_000 if kind == "bpe" else 30_000_000
    path = tmp_path / "text"
    line = default_corpus()[:100_000].encode() + "\U0001f642".encode()
    with path.open("wb") as file:
        while file.tell() < size:
            file.write(line)
    if in_memory:
        (tmp_path / "cache").write_bytes(b"a file, so that no directory can be made here")
    environment = {**os.environ, "MINIGRAD_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(path), kind],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=environment,
        cwd=Path(corpus_module.__file__).parent.parent,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 60_000_000 + in_memory * size
