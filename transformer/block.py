"""One block: attention, then a feed-forward network, each added to its input and normalised.

"Attention Is All You Need", sections 3.1 and 3.3.
"""

from __future__ import annotations

from minigrad import Tensor, nn
from minigrad.nn import functional as F
from transformer.attention import MultiHeadAttention, linear
from transformer.cache import Memory
from transformer.capture import NOTHING, Capture
from transformer.config import Config


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W₁ + b₁) W₂ + b₂ (equation 2): each token by itself, wider and back."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.expand = linear(config.d_model, config.d_ff, bias=True)
        self.contract = linear(config.d_ff, config.d_model, bias=True)
        self.activation = F.relu if config.activation == "relu" else F.gelu

    def extra_repr(self) -> str:
        return f'activation="{"relu" if self.activation is F.relu else "gelu"}"'

    def forward(self, x: Tensor, capture: Capture = NOTHING) -> Tensor:
        """Return the correction for each token: (B, T, d) → (B, T, d_ff) → (B, T, d)."""
        hidden = self.activation(self.expand(x))  # (B, T, d_ff)
        out: Tensor = self.contract(hidden)  # (B, T, d)
        capture("hidden", hidden)
        capture("out", out)
        return out


class Block(nn.Module):
    """x ← LayerNorm(x + attention(x)), then x ← LayerNorm(x + FFN(x)).

    That is the paper's post-norm.  With ``norm="pre"`` the sub-layers read a normalised copy instead, and the
    residual path itself is never normalised: x ← x + attention(LayerNorm(x)).
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
        self,
        x: Tensor,
        capture: Capture = NOTHING,
        memory: Memory | None = None,
        attention_mask: Tensor | None = None,
    ) -> Tensor:
        """Return the refined vectors: (B, T, d) → (B, T, d).

        They attend to what is in ``memory`` as well, or else not to padding: where ``attention_mask`` (B, T) is
        False.
        """
        x = self.sublayer("attention", x, capture, memory, attention_mask)
        return self.sublayer("ffn", x, capture)

    def sublayer(self, name: str, x: Tensor, capture: Capture, *others: Memory | Tensor | None) -> Tensor:
        """Run attention or the FFN within its residual connection and its LayerNorm (B, T, d)."""
        layer, norm = getattr(self, name), getattr(self, f"norm_{name}")
        normalized: Tensor
        if self.pre:
            normalized = norm(x)
            x = x + self.dropout(layer(normalized, capture.within(name), *others))  # the input, plus a correction
            capture(f"residual_{name}", x)
            capture(f"norm_{name}", normalized)
            return x
        x = x + self.dropout(layer(x, capture.within(name), *others))  # the input, plus a correction
        normalized = norm(x)
        capture(f"residual_{name}", x)
        capture(f"norm_{name}", normalized)
        return normalized
