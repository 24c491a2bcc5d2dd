"""Multi-head attention: each token asks, every earlier token answers, and the answers are mixed.

"Attention Is All You Need", section 3.2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import minigrad as mg
from minigrad import Tensor, nn
from minigrad.nn import functional as F
from transformer.cache import BlockCache
from transformer.capture import NOTHING, Capture
from transformer.config import Config


def attention_step_by_step(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, capture: Capture) -> Tensor:
    """Return softmax(Q Kᵀ / √d_k) V (equation 1) as the fused kernel does, with every step in sight.

    Without the root, the scores would grow with d_k, and softmax would give almost all weight to one key.

    Args:
        q: the queries (B, H, T, d_k).
        k: the keys (B, H, S, d_k).
        v: the values (B, H, S, d_k).
        mask: True where a query may see a key, of a shape that broadcasts to (B, H, T, S); None: everywhere.
        capture: keeps each step.
    """
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (B, H, T, S)   query t against key s
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)  # (B, H, T, S)
    pattern = scores.softmax(-1)  # (B, H, T, S)   each row sums to 1, what is masked weighs 0
    z = pattern @ v  # (B, H, T, d_k)   the values, each as much as its key weighs
    capture(q=q, k=k, v=v, scores=scores, pattern=pattern, z=z)
    return z


def causal_mask(n_tokens: int, device: Any = None) -> Tensor:
    """Return True where query t may see key s of a causal model, s ≤ t: (T, T).

    >>> causal_mask(2).tolist()
    [[True, False], [True, True]]
    """
    return mg.ones(n_tokens, n_tokens, device=device).tril().bool()


def mask_without_padding(attention_mask: Tensor, shape: Sequence[int], causal: bool) -> Tensor:
    """Return True where a query may see a key, (B, 1, 1, T) or (B, 1, T, T): a token, and none of the future.

    Args:
        attention_mask: boolean (B, T), False for padding.
        shape: of the token ids, (B, T).
        causal: whether the future is hidden too.

    Raises:
        ValueError: the mask is of another shape or not boolean.
    """
    if attention_mask.shape != shape or attention_mask.dtype != mg.bool:
        raise ValueError(
            f"attention_mask must be boolean of shape {tuple(shape)}, True for tokens and False for padding, "
            f"not {attention_mask.dtype} of shape {tuple(attention_mask.shape)}"
        )
    mask = attention_mask[:, None, None]  # (B, 1, 1, T)   the same for every head and query
    return mask & causal_mask(shape[1], mask.device) if causal else mask


def xavier_linear(d_in: int, d_out: int, bias: bool) -> nn.Linear:
    """Return x Wᵀ + b with Xavier's initial weights, which keep the size of vectors, and b = 0."""
    layer = nn.Linear(d_in, d_out, bias=bias)
    nn.init.xavier_uniform_(layer.weight)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


class MultiHeadAttention(nn.Module):
    """MultiHead(x) = Concat(head₁, …, head_h) W_O, where headᵢ = Attention(x W_Qᵢ, x W_Kᵢ, x W_Vᵢ).

    Head i uses rows i·d_k … (i+1)·d_k − 1 of W_Q, W_K and W_V, and the same columns of W_O.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.n_heads, self.d_k = config.n_heads, config.d_k
        self.causal = config.causal
        self.W_Q = xavier_linear(config.d_model, config.d_model, config.bias)
        self.W_K = xavier_linear(config.d_model, config.d_model, config.bias)
        self.W_V = xavier_linear(config.d_model, config.d_model, config.bias)
        self.W_O = xavier_linear(config.d_model, config.d_model, config.bias)

    def extra_repr(self) -> str:
        return f"n_heads={self.n_heads}, d_k={self.d_k}, causal={self.causal}"

    def forward(
        self, x: Tensor, capture: Capture = NOTHING, mask: Tensor | None = None, cache: BlockCache | None = None
    ) -> Tensor:
        """Return what each token gathers from those that it may see: (B, T, d) → (B, T, d).

        Args:
            x: the vectors of T tokens.
            capture: keeps the tensors on the way.
            mask: True where a query may see a key, of a shape that broadcasts to (B, H, T, S); None: in a causal
                model at its own token and those before, else everywhere.
            cache: keeps the keys and values, and gives those of the tokens before: S in all.
        """
        B, T, d = x.shape
        q = self.heads(self.W_Q(x))  # (B, H, T, d_k)   what each token is looking for
        k = self.heads(self.W_K(x))  # (B, H, T, d_k)   what each token contains
        v = self.heads(self.W_V(x))  # (B, H, T, d_k)   what each token offers
        if cache is not None:
            k, v = cache.extend(k, v)  # (B, H, S, d_k)
        causal = self.causal and mask is None and T > 1  # a single token is the last: all is before it
        if capture.on:
            z = attention_step_by_step(q, k, v, causal_mask(T, x.device) if causal else mask, capture)
        else:
            z = F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal)  # (B, H, T, d_k)
        out: Tensor = self.W_O(z.transpose(1, 2).reshape(B, T, d))  # (B, T, d)   heads side by side, mixed
        capture(out=out)
        return out

    def heads(self, x: Tensor) -> Tensor:
        """Split the width into heads: (B, T, d) → (B, H, T, d_k)."""
        B, T, _ = x.shape
        return x.view(B, T, self.n_heads, self.d_k).transpose(1, 2)
