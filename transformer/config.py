"""Everything that decides the shape of a model, in one place."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Self

from transformer.fields import ABOVE_0, AT_LEAST_0, AT_LEAST_1, FRACTION, check_fields, one_of, option
from transformer.presets import find_preset


@dataclass(frozen=True)
class Config:
    """The dimensions and variants of a :class:`transformer.Transformer`, named as in "Attention Is All You Need".

    >>> Config(vocab_size=65).d_k
    32
    >>> Config.preset("paper", vocab_size=37000).d_ff
    2048

    The defaults are the paper's decoder at a size that a laptop trains in minutes.  What differs from the paper is
    an option: ``norm="pre"``, ``positions="learned"``, ``activation="gelu"``, ``tie_weights=False``, ``bias=True``
    (in the attention projections), ``causal=False``.

    Raises:
        ValueError: a field is of another type, out of its range, or not one of its choices; ``n_heads`` does not
            divide ``d_model``; or ``d_model`` is odd with sinusoidal positions.
    """

    vocab_size: int = option(dataclasses.MISSING, "tokens that the tokenizer knows", AT_LEAST_1)
    n_layers: int = option(4, "blocks", AT_LEAST_1)
    n_heads: int = option(4, "attention heads in each block; must divide d_model", AT_LEAST_1)
    d_model: int = option(128, "width of a token's vector", AT_LEAST_1)
    d_ff: int = option(0, "width of the feed-forward layer; 0 means 4 x d_model", AT_LEAST_0)
    context: int = option(128, "tokens that the model is trained to see at once", AT_LEAST_1)
    dropout: float = option(0.0, "share of each sub-layer's output that is dropped in training", FRACTION)
    norm: str = option(
        "post", "LayerNorm after the residual sum (post, the paper) or before (pre)", one_of("post", "pre")
    )
    positions: str = option("sinusoidal", "sinusoidal (the paper) or learned", one_of("sinusoidal", "learned"))
    activation: str = option("relu", "of the feed-forward layer: relu (the paper) or gelu", one_of("relu", "gelu"))
    tie_weights: bool = option(True, "the embedding table also gives the logits")
    bias: bool = option(False, "biases in the attention projections")
    causal: bool = option(True, "tokens see only what came before them")
    layer_norm_eps: float = option(1e-5, "what LayerNorm adds to the variance", ABOVE_0)

    def __post_init__(self) -> None:
        check_fields(self)
        if self.d_ff == 0:
            object.__setattr__(self, "d_ff", 4 * self.d_model)
        if self.d_model % self.n_heads:
            raise ValueError(
                f"{self.n_heads} heads don't divide a width of {self.d_model}: "
                f"choose n_heads so that d_model / n_heads is a whole number"
            )
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise ValueError(f"sinusoidal positions come in pairs, so d_model must be even, not {self.d_model}")

    @property
    def d_k(self) -> int:
        """The width of one head's queries, keys and values."""
        return self.d_model // self.n_heads

    @classmethod
    def preset(cls, key: str | int, **overrides: Any) -> Self:
        """Return the model of a preset, by name ("micro", "small", "paper"), or of a depth, by number.

        How such a model is trained says :meth:`transformer.Recipe.preset`.

        Args:
            key: the name, or the number of blocks, to which all else is in proportion.
            overrides: replace single fields; ``vocab_size`` is always needed.

        Raises:
            ValueError: there is no such preset, or a field has no allowed value.
            TypeError: ``vocab_size`` is missing, or there is no such field.
        """
        return cls(**{**find_preset(key).model, **overrides})

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dict, for a checkpoint."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Return the config of a checkpoint.

        Raises:
            ValueError: a field is unknown, missing or of no allowed value.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        unknown = sorted(set(fields) - known)
        if unknown:
            raise ValueError(f"unknown config field {unknown[0]!r}")
        if "vocab_size" not in fields:
            raise ValueError("the config lacks vocab_size")
        return cls(**fields)
