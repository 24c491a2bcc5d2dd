"""All that a page shows, as one JSON-able dict: the captured tensors, and what each chapter adds to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import minigrad as mg
from transformer.explain.backprop import backprop
from transformer.explain.blocks import blocks
from transformer.explain.context import context
from transformer.explain.embedding import embedding
from transformer.explain.heads import heads
from transformer.explain.material import Subject
from transformer.explain.output import output
from transformer.explain.packing import packed
from transformer.explain.positions import positions
from transformer.explain.prediction import prediction
from transformer.explain.projections import projections
from transformer.explain.scores import scores
from transformer.explain.tokens import tokens
from transformer.explain.training import training

FORMAT = "transformer explain"
VERSION = 1

CHAPTERS: dict[str, Callable[[Subject], dict[str, Any]]] = {
    "prediction": prediction,
    "tokens": tokens,
    "embedding": embedding,
    "context": context,
    "projections": projections,
    "scores": scores,
    "heads": heads,
    "positions": positions,
    "blocks": blocks,
    "output": output,
    "training": training,
    "backprop": backprop,
}
"""What computes each chapter, in the order of the page; ``assets`` has its prose and its script."""


def page_data(subject: Subject, chapter_done: Callable[[str], Any] | None = None) -> dict[str, Any]:
    """Return everything that the page shows.

    A chapter that fails leaves ``{"error": "why"}`` in its place, and the page says so where its figures would be.

    Args:
        subject: the sentence and its model.
        chapter_done: called with the name of each chapter when it is computed.
    """
    chapters = {}
    with mg.limit_threads(1):
        for name, compute in CHAPTERS.items():
            try:
                chapters[name] = compute(subject)
            except Exception as error:
                chapters[name] = {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"}
            if chapter_done is not None:
                chapter_done(name)
    tokenizer, config = subject.tokenizer, subject.config
    return {
        "format": FORMAT,
        "version": VERSION,
        "run": str(subject.material.path),
        "served": False,
        "compare": list(subject.compare),
        "model": {
            **config.to_dict(),
            "d_k": config.d_k,
            "parameters": subject.model.n_parameters(),
            "tokenizer": tokenizer.to_dict()["kind"],
        },
        "text": {
            "given": subject.given if subject.n_given == len(subject.ids) else subject.text,
            "notice": subject.notice,
            "ids": subject.ids,
            "tokens": subject.tokens,
        },
        "vocabulary": [tokenizer.token_text(id) for id in range(config.vocab_size)],
        "tensors": {name: packed(tensor) for name, tensor in subject.cache.items()},
        "chapters": chapters,
    }
