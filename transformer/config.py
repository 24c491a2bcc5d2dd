"""Everything that decides the shape of a model, in one place."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Self

from transformer.presets import find_preset

NORMS = ("post", "pre")
POSITIONS = ("sinusoidal", "learned")
ACTIVATIONS = ("relu", "gelu")
TYPES: dict[str, type] = {"int": int, "float": float, "bool": bool, "str": str}


def described(default: Any, help: str, choices: tuple[str, ...] = ()) -> Any:
    """Declare a field with the sentence that the command line's help shows for it; None means no default."""
    metadata = {"help": help, "choices": choices}
    if default is None:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def check_types(instance: Any) -> None:
    """Raise if a field of a dataclass holds something of another type; an int is allowed where a float is.

    Raises:
        ValueError: names the field, its type and the value.
    """
    for field in dataclasses.fields(instance):
        value = getattr(instance, field.name)
        allowed: tuple[type, ...] = (int, float) if field.type == "float" else (TYPES[str(field.type)],)
        if not isinstance(value, allowed) or (isinstance(value, bool) and field.type != "bool"):
            raise ValueError(f"{field.name} must be of type {field.type}, not {value!r:.80}")


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

    vocab_size: int = described(None, "tokens that the tokenizer knows")
    n_layers: int = described(4, "blocks")
    n_heads: int = described(4, "attention heads in each block; must divide d_model")
    d_model: int = described(128, "width of a token's vector")
    d_ff: int = described(0, "width of the feed-forward layer; 0 means 4 x d_model")
    context: int = described(128, "tokens that the model is trained to see at once")
    dropout: float = described(0.0, "share of each sub-layer's output that is dropped in training")
    norm: str = described("post", "LayerNorm after the residual sum (post, the paper) or before (pre)", NORMS)
    positions: str = described("sinusoidal", "sinusoidal (the paper) or learned", POSITIONS)
    activation: str = described("relu", "of the feed-forward layer: relu (the paper) or gelu", ACTIVATIONS)
    tie_weights: bool = described(True, "the embedding table also gives the logits")
    bias: bool = described(False, "biases in the attention projections")
    causal: bool = described(True, "tokens see only what came before them")
    layer_norm_eps: float = described(1e-5, "what LayerNorm adds to the variance")

    def __post_init__(self) -> None:
        check_types(self)
        for field in dataclasses.fields(self):
            value, least = getattr(self, field.name), 0 if field.name == "d_ff" else 1
            if field.type == "int" and value < least:
                raise ValueError(f"{field.name} must be at least {least}, not {value}")
        if self.d_ff == 0:
            object.__setattr__(self, "d_ff", 4 * self.d_model)
        if self.d_model % self.n_heads:
            raise ValueError(
                f"{self.n_heads} heads don't divide a width of {self.d_model}: "
                f"choose n_heads so that d_model / n_heads is a whole number"
            )
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise ValueError(f"sinusoidal positions come in pairs, so d_model must be even, not {self.d_model}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be at least 0 and below 1, not {self.dropout}")
        if not 0 < self.layer_norm_eps < math.inf:
            raise ValueError(f"layer_norm_eps must be a number above 0, not {self.layer_norm_eps}")
        for field in dataclasses.fields(self):
            value, choices = getattr(self, field.name), field.metadata["choices"]
            if choices and value not in choices:
                raise ValueError(f"{field.name} must be one of {', '.join(choices)}, not {value!r:.80}")

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
