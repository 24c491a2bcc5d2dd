"""Reading and splitting text, and the sentences that say why a file cannot be used."""

import os
import sys
from pathlib import Path
from pydoc_data.topics import topics
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.corpus import DataError
from transformer.data import default_corpus, read_text, split_text


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def refusal(paths: list[str | Path] | str | Path) -> str:
    with pytest.raises(DataError) as caught:
        read_text(paths)
    message = str(caught.value)
    assert "\n" not in message
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return message


def test_the_default_corpus_is_python_reference_text() -> None:
    corpus = default_corpus()
    assert corpus == default_corpus()
    assert len(corpus) > 300_000
    assert corpus.startswith('The "assert" statement\n')
    assert 'The "with" statement' in corpus
    assert len(corpus) == sum(len(text) + len("\n\n") for text in topics.values()) - len("\n\n")
    assert all(text in corpus for text in topics.values())


def test_a_python_without_help_topics_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(DataError, match=r"without its help topics .* give a text file"):
        default_corpus()


def test_text_is_read_exactly(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "caf\u00e9\r\n\tx\0\rend ".encode())
    assert read_text([path]) == "caf\u00e9\r\n\tx\0\rend "
    assert read_text([str(path)]) == read_text(path) == read_text(str(path)) == read_text([path])


def test_several_files_are_joined_with_a_newline(tmp_path: Path) -> None:
    first, second = written(tmp_path / "a", b"one"), written(tmp_path / "b", b"two\n")
    assert read_text([first, second, first]) == "one\ntwo\n\none"


def test_a_byte_order_mark_is_dropped_only_at_the_beginning_of_a_file(tmp_path: Path) -> None:
    path = written(tmp_path / "a", "\ufeffone\ufeff".encode())
    assert read_text([path, path]) == "one\ufeff\none\ufeff"


def test_no_files() -> None:
    assert refusal([]) == "no text file was given"


def test_a_missing_file(tmp_path: Path) -> None:
    path = str(tmp_path / "nowhere.txt")
    assert refusal([path]) == f"cannot read {path!r}: no such file"


def test_a_directory(tmp_path: Path) -> None:
    assert refusal(tmp_path) == f"cannot read {str(tmp_path)!r}: it is a directory, not a text file"


def test_a_file_behind_a_file(tmp_path: Path) -> None:
    assert refusal(written(tmp_path / "a", b"text") / "b").startswith("cannot read ")


def test_permission_denied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "secret.txt", b"text")

    def denied(self: Path, mode: str) -> BinaryIO:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", denied)
    assert refusal(path) == f"cannot read {str(path)!r}: permission denied"


@pytest.mark.skipif(os.name != "posix", reason="other systems have other limits on file names")
def test_impossible_names(tmp_path: Path) -> None:
    assert refusal("a\0b") == "cannot read 'a\\x00b': embedded null byte"
    assert refusal(tmp_path / ("x" * 5000)).endswith(": File name too long")
    assert refusal("not\udcffhere") == "cannot read 'not\\udcffhere': no such file"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (b" \n\t\r\n", "contains only whitespace"),
        (
            "\u00e9".encode() + b"ab\xffcd",
            "is not UTF-8 text: byte 0xff at offset 4 is invalid; convert the file to UTF-8 first",
        ),
        (
            b"\xef\xbb\xbfab\xe9",
            "is not UTF-8 text: byte 0xe9 at offset 5 is invalid; convert the file to UTF-8 first",
        ),
        (
            "text".encode("utf-16"),
            "is not UTF-8 text: byte 0xff at offset 0 is invalid; convert the file to UTF-8 first",
        ),
    ],
)
def test_unusable_contents(tmp_path: Path, content: bytes, reason: str) -> None:
    good, bad = written(tmp_path / "good", b"text"), written(tmp_path / "bad", content)
    assert refusal([good, bad]) == f"{str(bad)!r} {reason}"


@given(st.text(min_size=10, max_size=200), st.sampled_from([0.1, 0.25, 0.5, 0.9]))
def test_the_two_parts_are_the_text(text: str, held_out: float) -> None:
    train, rest = split_text(text, held_out)
    assert train + rest == text
    assert len(rest) == int(len(text) * held_out)


def test_a_tenth_is_held_out_from_the_end() -> None:
    text = "x" * 465_117 + "y" * 9
    train, held_out = split_text(text)
    assert (len(train), len(held_out)) == (418_614, 46_512)
    assert held_out.endswith("y" * 9)


@pytest.mark.parametrize("held_out", [0.0, 1.0, -0.1, 2.0, float("nan")])
def test_impossible_fractions(held_out: float) -> None:
    with pytest.raises(DataError, match="must be between 0 and 1, not"):
        split_text("x" * 100, held_out)


@pytest.mark.parametrize("text", ["", "x", "x" * 9])
def test_texts_too_short_to_split(text: str) -> None:
    with pytest.raises(DataError, match=f"a text of {len(text)} characters is too short"):
        split_text(text)
