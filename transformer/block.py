"""One block: attention, then a feed-forward network, each added to its input and normalised.

"Attention Is All You Need", sections 3.1 and 3.3.
"""

from __future__ import annotations

from minigrad import Tensor, nn
from minigrad.nn import functional as F
from transformer.attention import MultiHeadAttention, xavier_linear
from transformer.cache import BlockCache
from transformer.capture import NOTHING, Capture
from transformer.config import Config


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W₁ + b₁) W₂ + b₂ (equation 2): each token by itself, wider and back."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.expand = xavier_linear(config.d_model, config.d_ff, bias=True)
        self.contract = xavier_linear(config.d_ff, config.d_model, bias=True)
        self.activation = F.relu if config.activation == "relu" else F.gelu

    def extra_repr(self) -> str:
        return f'activation="{"relu" if self.activation is F.relu else "gelu"}"'

    def forward(self, x: Tensor, capture: Capture = NOTHING) -> Tensor:
        """Return the correction for each token: (B, T, d) → (B, T, d_ff) → (B, T, d)."""
        hidden = self.activation(self.expand(x))  # (B, T, d_ff)
        out: Tensor = self.contract(hidden)  # (B, T, d)
        capture(hidden=hidden, out=out)
        return out


class Block(nn.Module):
    """x ← LayerNorm(x + attention(x)), then x ← LayerNorm(x + FFN(x)).

    That is the paper's post-norm: "the output of each sub-layer is LayerNorm(x + Sublayer(x))".  With
    ``norm="pre"`` the sub-layers read a normalised copy instead, and the residual path itself is never normalised:
    x ← x + attention(LayerNorm(x)).
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.pre = config.norm == "pre"
        self.attention = MultiHeadAttention(config)
        self.ffn = FeedForward(config)
        self.norm_attention = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.norm_ffn = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.dropout)

    def extra_repr(self) -> str:
        return f'norm="{"pre" if self.pre else "post"}"'

    def forward(
        self, x: Tensor, capture: Capture = NOTHING, mask: Tensor | None = None, cache: BlockCache | None = None
    ) -> Tensor:
        """Return the refined vectors: (B, T, d) → (B, T, d).

        Dropout falls on what each sub-layer gives, before it is added to its input (section 5.4).

        Args:
            x: the vectors of T tokens.
            capture: keeps the tensors on the way.
            mask: what may be seen, see :meth:`MultiHeadAttention.forward`.
            cache: of the tokens before, see :meth:`MultiHeadAttention.forward`.
        """
        if self.pre:
            norm_attention = self.norm_attention(x)  # (B, T, d)
            attention = self.attention(norm_attention, capture.within("attention"), mask, cache)  # (B, T, d)
            residual_attention = x + self.dropout(attention)  # (B, T, d)   the input, plus a correction
            norm_ffn = self.norm_ffn(residual_attention)  # (B, T, d)
            ffn = self.ffn(norm_ffn, capture.within("ffn"))  # (B, T, d)
            x = residual_ffn = residual_attention + self.dropout(ffn)  # (B, T, d)
        else:
            attention = self.attention(x, capture.within("attention"), mask, cache)  # (B, T, d)
            residual_attention = x + self.dropout(attention)  # (B, T, d)   the input, plus a correction
            norm_attention = self.norm_attention(residual_attention)  # (B, T, d)
            ffn = self.ffn(norm_attention, capture.within("ffn"))  # (B, T, d)
            residual_ffn = norm_attention + self.dropout(ffn)  # (B, T, d)
            x = norm_ffn = self.norm_ffn(residual_ffn)  # (B, T, d)
        capture(residual_attention=residual_attention, norm_attention=norm_attention)
        capture(residual_ffn=residual_ffn, norm_ffn=norm_ffn)
        return x
