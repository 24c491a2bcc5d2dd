"""Multi-head attention: each token asks, every earlier token answers, and the answers are mixed.

"Attention Is All You Need", section 3.2.
"""

from __future__ import annotations

import math
from typing import Any

import minigrad as mg
from minigrad import Tensor, nn
from minigrad.nn import functional as F
from transformer.cache import Memory
from transformer.capture import NOTHING, Capture
from transformer.config import Config


def causal_mask(n_queries: int, n_keys: int, device: Any = None) -> Tensor:
    """Return True where query t may see key s of a causal model, s ≤ t: (n_queries, n_keys).

    >>> causal_mask(2, 3).tolist()
    [[True, False, False], [True, True, False]]
    """
    return mg.ones(n_queries, n_keys, device=device).tril().bool()


def linear(d_in: int, d_out: int, bias: bool) -> nn.Linear:
    """Return x Wᵀ + b with Xavier's initial weights, which keep the size of vectors, and b = 0."""
    layer = nn.Linear(d_in, d_out, bias=bias)
    nn.init.xavier_uniform_(layer.weight)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


class MultiHeadAttention(nn.Module):
    """Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V in h heads, concatenated and mixed by W_O (equation 1).

    Head i uses rows i·d_k … (i+1)·d_k − 1 of W_Q, W_K and W_V, and the same columns of W_O.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.n_heads, self.d_k = config.n_heads, config.d_k
        self.causal = config.causal
        self.W_Q = linear(config.d_model, config.d_model, config.bias)
        self.W_K = linear(config.d_model, config.d_model, config.bias)
        self.W_V = linear(config.d_model, config.d_model, config.bias)
        self.W_O = linear(config.d_model, config.d_model, config.bias)

    def forward(
        self,
        x: Tensor,
        capture: Capture = NOTHING,
        memory: Memory | None = None,
        attention_mask: Tensor | None = None,
    ) -> Tensor:
        """Return what each token gathers from those it may see: (B, T, d) → (B, T, d).

        These are the T tokens of ``x``, and with a ``memory`` also those before them: S keys in all.  Without one,
        an ``attention_mask`` (B, T) can be False for those that nobody may see: padding.

        Raises:
            ValueError: the mask is of another shape or not boolean.
        """
        B, T, d = x.shape
        q = self.heads(self.W_Q(x))  # (B, H, T, d_k)   what each token is looking for
        k = self.heads(self.W_K(x))  # (B, H, T, d_k)   what each token contains
        v = self.heads(self.W_V(x))  # (B, H, T, d_k)   what each token offers
        mask, causal = None, self.causal
        if memory is not None:
            k, v = memory.extend(k, v)  # (B, H, S, d_k)
            mask, causal = memory.mask, memory.is_causal
        elif attention_mask is not None:
            mask, causal = self.mask_of_scores(attention_mask, B, T), False
        if capture.on:
            z = self.attend_step_by_step(q, k, v, capture, mask, causal)
        else:
            z = F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal)  # (B, H, T, d_k)
        out: Tensor = self.W_O(z.transpose(1, 2).reshape(B, T, d))  # (B, T, d)   heads side by side, mixed
        capture("out", out)
        return out

    def extra_repr(self) -> str:
        return f"n_heads={self.n_heads}, d_k={self.d_k}, causal={self.causal}"

    def heads(self, x: Tensor) -> Tensor:
        """Split the width into heads: (B, T, d) → (B, H, T, d_k)."""
        B, T, _ = x.shape
        return x.view(B, T, self.n_heads, self.d_k).transpose(1, 2)

    def mask_of_scores(self, attention_mask: Tensor, B: int, T: int) -> Tensor:
        """Return True where a query may see a key, (B, 1, 1, T) or (B, 1, T, T): a token, and none of the future.

        Raises:
            ValueError: the mask is of another shape or not boolean.
        """
        if attention_mask.shape != (B, T) or attention_mask.dtype != mg.bool:
            raise ValueError(
                f"attention_mask must be boolean of shape {(B, T)}, True for tokens and False for padding, "
                f"not {attention_mask.dtype} of shape {tuple(attention_mask.shape)}"
            )
        mask = attention_mask[:, None, None]  # (B, 1, 1, T)   the same for every head and query
        return mask & causal_mask(T, T, mask.device) if self.causal else mask

    def attend_step_by_step(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        capture: Capture,
        mask: Tensor | None = None,
        causal: bool | None = None,
    ) -> Tensor:
        """The same as the fused kernel, with every step in sight.  T queries, S keys."""
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_k)  # (B, H, T, S)   query t against key s
        if self.causal if causal is None else causal:
            mask = causal_mask(q.shape[-2], k.shape[-2], q.device)  # (T, T)
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        pattern = scores.softmax(-1)  # (B, H, T, S)   each row sums to 1, the future weighs 0
        z = pattern @ v  # (B, H, T, d_k)
        for name, tensor in (
            ("q", q),
            ("k", k),
            ("v", v),
            ("scores", scores),
            ("pattern", pattern),
            ("z", z),
        ):
            capture(name, tensor)
        return z
