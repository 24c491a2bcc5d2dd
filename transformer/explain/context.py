"""Chapter 4: one token in two contexts, and what a change reaches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import minigrad as mg
from transformer.explain.material import Subject, run, stages
from transformer.explain.packing import packed
from transformer.tokenizer import Tokenizer


def context(subject: Subject) -> dict[str, Any]:
    """Return the vectors of one token in two phrases, and how far a changed token is felt."""
    return {"compare": compare(subject), "change": change(subject)}


def compare(subject: Subject) -> dict[str, Any]:
    """Return a token's vectors in two phrases: its row, with its position added, and after each block."""
    phrases = subject.compare
    try:
        ids = [subject.tokenizer.encode(phrase)[-subject.config.context :] for phrase in phrases]
    except ValueError as error:
        return {"missing": str(error)}
    places = shared_token(*ids)
    if places is None:
        return {
            "missing": f"{phrases[0]!r} and {phrases[1]!r} have no token in common: choose phrases that end alike"
        }
    caches = [run(subject.model, sequence)[1] for sequence in ids]
    vectors = [
        [stage[place] for stage in stages(cache, subject.config)]
        for cache, place in zip(caches, places, strict=True)
    ]
    names = ["table", "position", *(f"block {i + 1}" for i in range(subject.config.n_layers))]
    return {
        "phrases": list(phrases),
        "tokens": [texts(subject.tokenizer, sequence) for sequence in ids],
        "places": list(places),
        "token": subject.tokenizer.token_text(ids[0][places[0]]),
        "stages": names,
        "vectors": packed(mg.stack([mg.stack(one) for one in vectors])),  # (2, stages, d)
    }


def shared_token(a: Sequence[int], b: Sequence[int]) -> tuple[int, int] | None:
    """Return where the last token of ``a`` that ``b`` has too stands in each, or None.

    >>> shared_token([1, 2, 3], [4, 3, 2])
    (2, 1)
    """
    for i in reversed(range(len(a))):
        for j in reversed(range(len(b))):
            if a[i] == b[j]:
                return i, j
    return None


def change(subject: Subject) -> dict[str, Any]:
    """Replace one token in the middle and return the largest change in each token's vector, stage by stage."""
    place = len(subject.ids) // 2
    others = [id for id in subject.ids if id != subject.ids[place]]
    new = others[0] if others else (subject.ids[place] + 1) % subject.config.vocab_size
    ids = [*subject.ids[:place], new, *subject.ids[place + 1 :]]
    before = stages(subject.cache, subject.config)
    after = stages(run(subject.model, ids)[1], subject.config)
    differences = [(b - a).abs().amax(-1) for a, b in zip(before, after, strict=True)]  # (T,) each
    return {
        "place": place,
        "old": subject.tokens[place],
        "new": subject.tokenizer.token_text(new),
        "differences": packed(mg.stack(differences)),  # (stages, T)
    }


def texts(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """Return tokens as legible texts."""
    return [tokenizer.token_text(id) for id in ids]
