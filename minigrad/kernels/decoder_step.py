"""One token of one text through a decoder, when what came before it is remembered: how text is generated.

For a single token, a block is a few products of a matrix and a vector: microseconds each, less than it costs to
call an operation on tensors.  So here the whole decoder is one call.  It has no derivative: nothing is trained
through it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from minigrad.graph import Array
from minigrad.kernels.activation import gelu
from minigrad.tensor import Tensor

if TYPE_CHECKING:
    from minigrad.nn import Embedding, LayerNorm, Linear


class Affine:
    """W x + b of vectors, from one layer or from several whose outputs follow one another."""

    def __init__(self, *layers: Linear) -> None:
        weights = [layer.weight._data for layer in layers]
        biases = [layer.bias._data for layer in layers if layer.bias is not None]
        self.weight = weights[0] if len(layers) == 1 else np.concatenate(weights)
        self.bias = np.concatenate(biases) if biases else None

    def scale_rows(self, n: int, factor: float) -> None:
        """Multiply the first n outputs of several joined layers by ``factor``."""
        self.weight[:n] *= factor
        if self.bias is not None:
            self.bias[:n] *= factor

    def __call__(self, x: Array) -> Array:
        out = self.weight.dot(x)
        if self.bias is not None:
            out += self.bias
        return out


class Normalize:
    """LayerNorm of vectors: √d γ c / √(Σ c² + d ε) + β, where c = x − mean."""

    def __init__(self, norm: LayerNorm) -> None:
        assert norm.weight is not None
        assert norm.bias is not None
        gain, self.bias = norm.weight._data, norm.bias._data
        d = len(gain)
        self.average = np.full(d, 1 / d, gain.dtype)
        self.gain = gain * math.sqrt(d)
        self.eps = d * norm.eps

    def __call__(self, x: Array) -> Array:
        out = x - x.dot(self.average)  # BLAS adds up faster than NumPy's mean
        out *= self.gain * (1 / math.sqrt(out.dot(out) + self.eps))
        out += self.bias
        return out


class BlockStep:
    """A block's weights, made ready to take single tokens through it.

    ``norm_first=False``: x ← LayerNorm(x + attention(x)), x ← LayerNorm(x + FFN(x)); with True, pre-norm:
    x ← x + attention(LayerNorm(x)), x ← x + FFN(LayerNorm(x)).

    Args:
        norm_first: as above.
        activation: "relu" or "gelu".
        n_heads: H, of d_k = d / H dimensions each.
        in_proj: W_Q, W_K and W_V, each (d, d).
        out_proj: W_O (d, d).
        linear1, linear2: the FFN's (d_ff, d) and (d, d_ff).
        norm1, norm2: of attention and of the FFN.
    """

    def __init__(
        self,
        norm_first: bool,
        activation: str,
        n_heads: int,
        in_proj: Sequence[Linear],
        out_proj: Linear,
        linear1: Linear,
        linear2: Linear,
        norm1: LayerNorm,
        norm2: LayerNorm,
    ) -> None:
        self.norm_first = norm_first
        self.activation = activation
        self.in_proj, self.out_proj = Affine(*in_proj), Affine(out_proj)  # three products as one
        d = self.in_proj.weight.shape[1]
        self.in_proj.scale_rows(d, 1 / math.sqrt(d // n_heads))  # q is divided by √d_k as it is made
        self.linear1, self.linear2 = Affine(linear1), Affine(linear2)
        self.norm1, self.norm2 = Normalize(norm1), Normalize(norm2)
        self.zeros = np.zeros(len(self.linear1.weight), self.linear1.weight.dtype)

    def __call__(self, x: Array, kept: Array, end: int) -> Array:
        """Return the refined vector (d,) of a token; its key and value go to those kept, (2, H, capacity, d_k)."""
        if self.norm_first:
            x = x + self.attend(self.norm1(x), kept, end)
            return x + self.feed_forward(self.norm2(x))
        x = self.norm1(x + self.attend(x, kept, end))
        return self.norm2(x + self.feed_forward(x))

    def attend(self, x: Array, kept: Array, end: int) -> Array:
        """softmax(K q) V in each head, mixed by W_O: (d,) → (d,)."""
        _, n_heads, _, d_k = kept.shape
        qkv = self.in_proj(x).reshape(3, n_heads, d_k)
        kept[:, :, end - 1] = qkv[1:]
        keys, values = kept[:, :, :end]  # (H, S, d_k)
        weights = (keys @ qkv[0, :, :, None])[..., 0]  # (H, S)
        weights -= np.maximum.reduce(weights, axis=1, keepdims=True)
        np.exp(weights, out=weights)
        weights /= np.add.reduce(weights, axis=1, keepdims=True)
        z = weights[:, None] @ values  # (H, 1, d_k)
        return self.out_proj(z.reshape(-1))

    def feed_forward(self, x: Array) -> Array:
        """W₂ activation(W₁ x + b₁) + b₂: (d,) → (d,)."""
        hidden = self.linear1(x)  # (d_ff,)
        if self.activation == "relu":
            np.maximum(hidden, self.zeros, out=hidden)  # an array of zeros: converting a number takes longer
        else:
            hidden, _ = gelu.forward(hidden)
        return self.linear2(hidden)


class DecoderStep:
    """A decoder's weights, made ready to take single tokens through it, from id to logits.

    The weights are taken as they are now: later changes may go unnoticed.

    Args:
        embedding: of tokens, (V, d).
        scale: what their vectors are multiplied by.
        blocks: in their order.
        norm: a LayerNorm after the last block, if there is one.
        output: (V, d).
    """

    def __init__(
        self,
        embedding: Embedding,
        scale: float,
        blocks: Sequence[BlockStep],
        norm: LayerNorm | None,
        output: Linear,
    ) -> None:
        self.embedding = embedding.weight._data
        self.scale = scale
        self.blocks = blocks
        self.norm = None if norm is None else Normalize(norm)
        self.output = Affine(output)

    def __call__(self, token: int, position: Tensor, memory: Sequence[Tensor], place: int) -> Tensor:
        """Return the logits (1, V) of what comes after a token.

        Args:
            token: its id.
            position: what is added to its vector, (1, d).
            memory: for each block the keys and values of the tokens before it, (2, 1, H, capacity, d_k); its own
                are added.
            place: the number of tokens before it, less than the capacity.

        Raises:
            IndexError: there is no such token.
        """
        if not 0 <= token < len(self.embedding):
            raise IndexError(f"index {token} is out of range for an embedding of {len(self.embedding)} rows")
        x = self.embedding[token] * self.scale
        x += position._data[0]
        with np.errstate(all="ignore"):  # infinities are a model's own, and no warning helps
            for block, kept in zip(self.blocks, memory, strict=True):
                x = block(x, kept._data[:, 0], place + 1)
            if self.norm is not None:
                x = self.norm(x)
            return Tensor(self.output(x)[None])
