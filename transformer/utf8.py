"""Between text and its bytes in UTF-8: whole, arriving one token at a time, and made legible."""

from __future__ import annotations

import codecs
from collections.abc import Callable


def to_bytes(text: str) -> bytes:
    """Return the bytes of any str in UTF-8; a lone surrogate becomes the three bytes UTF-8 would give it."""
    return text.encode("utf-8", "surrogatepass")


def to_text(encoded: bytes) -> str:
    """Return the text of any bytes: the reverse of :func:`to_bytes`, and "\\ufffd" where they are no UTF-8."""
    return encoded.decode("utf-8", _SURROGATES_OR_REPLACEMENT)


def _surrogates_or_replacement(error: UnicodeError) -> tuple[str | bytes, int]:
    """Decode the bytes of a lone surrogate as "surrogatepass" does, and all other errors as "replace"."""
    try:
        return codecs.lookup_error("surrogatepass")(error)
    except UnicodeError:
        return codecs.replace_errors(error)


_SURROGATES_OR_REPLACEMENT = "transformer.surrogates_or_replacement"
codecs.register_error(_SURROGATES_OR_REPLACEMENT, _surrogates_or_replacement)


class StreamDecoder:
    """Text from ids that arrive one by one: all that is complete, and never a part of a character.

    >>> stream = StreamDecoder(lambda id: bytes([id]))
    >>> [stream.feed(byte) for byte in "né".encode()]
    ['n', '', 'é']
    >>> stream.feed(0xE2), stream.flush()  # the first byte of three, and the end
    ('', '\\ufffd')

    What :meth:`feed` and :meth:`flush` return, joined, is what a tokenizer's ``decode`` of all the ids returns.

    Args:
        token_bytes: gives the bytes of a token, given its id.
    """

    def __init__(self, token_bytes: Callable[[int], bytes]) -> None:
        self._token_bytes = token_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")(_SURROGATES_OR_REPLACEMENT)

    def feed(self, id: int) -> str:
        """Return the text that one more id completes, or "".

        Raises:
            ValueError: the id is outside the vocabulary.
        """
        return self._decoder.decode(self._token_bytes(id))

    def flush(self) -> str:
        """Return the end of the text: "\\ufffd" for an unfinished character, else "". A new text can follow."""
        return self._decoder.decode(b"", final=True)


def legible(token: bytes) -> str:
    """Return the bytes of a token as text that can be read, and that is different for different bytes.

    >>> print(*map(legible, [b" the", b"\\n\\t", "é".encode(), b"\\xc3", b"a\\\\b"]))
    ␣the \\n\\t é \\xc3 a\\\\b

    A space is shown as "␣".  Characters that cannot be seen are escaped as in a Python string: newline,
    carriage return and tab as \\n, \\r and \\t, others by their code point as \\u00a0 or \\U000e0001.  A byte
    that is only a part of a character is \\x and two digits.  A backslash is doubled, a real "␣" is \\u2423.
    """
    return "".join(map(_legible_character, token.decode("utf-8", "surrogateescape")))


_NAMED_CHARACTERS = {" ": "␣", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", "␣": "\\u2423"}


def _legible_character(character: str) -> str:
    code_point = ord(character)
    if character in _NAMED_CHARACTERS:
        return _NAMED_CHARACTERS[character]
    if 0xDC80 <= code_point <= 0xDCFF:  # where "surrogateescape" puts the byte code_point - 0xDC00
        return f"\\x{code_point - 0xDC00:02x}"
    if character.isprintable():
        return character
    return f"\\u{code_point:04x}" if code_point <= 0xFFFF else f"\\U{code_point:08x}"
