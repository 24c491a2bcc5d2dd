# %% [markdown]
# # 9. From a bigram to a transformer
#
# **A language model guesses the next character. How much better does it guess when it may look further back
# than one?**
#
# The text is the one behind Python's own `help()`, half a million characters that every Python brings along.
# The last tenth is held out: a model is judged by what it has never seen.

# %%
import math
import time

import minigrad as mg
from minigrad import nn
from minigrad.nn import functional as F
from transformer.data import default_corpus

mg.set_num_threads(1)  # products as small as these are done sooner by one processor than shared out to several
text = default_corpus()
characters = sorted(set(text))
id_of = {character: i for i, character in enumerate(characters)}
ids = mg.tensor([id_of[character] for character in text])
V = len(characters)
cut = len(ids) * 9 // 10
train, held_out = ids[:cut], ids[cut:]
print(f"{len(text):,} characters, {V} different ones. It begins: {text[:60]!r}")
print(f"guessing blindly costs log({V}) = {math.log(V):.3f} nats per character")

# %% [markdown]
# The loss of a language model is its mean surprise, −log of the probability it gave to what came. A model with
# the loss L is as unsure as if it had e^L equally good choices: all V of them, to begin with.
#
# ## Counting
#
# The simplest model that looks at all: count which character followed which.

# %%
counts = [[0.1] * V for _ in range(V)]  # a little for each pair, so that nothing is impossible
for before, after in zip(train[:-1].tolist(), train[1:].tolist(), strict=True):
    counts[before][after] += 1
table = mg.tensor(counts)
log_probabilities = (table / table.sum(-1, keepdim=True)).log()  # (V, V): row "before", column "after"
counting = F.nll_loss(log_probabilities[held_out[:-1]], held_out[1:]).item()

after_q = log_probabilities[id_of["q"]].exp().argmax().item()
print(f"after 'q' comes {characters[after_q]!r} with {log_probabilities[id_of['q'], after_q].exp():.0%}")
assert characters[after_q] == "u"
print(f"bigram by counting: {counting:.3f} nats, {math.exp(counting):.1f} choices")

# %% [markdown]
# ## The surprise: gradient descent counts
#
# Now a table of the same size, all zeros, that is never told to count. It only gets the gradient of its loss.

# %%
mg.manual_seed(0)
bigram = nn.Embedding(V, V)  # row "before" holds the logits of "after"
nn.init.zeros_(bigram.weight)
optimizer = mg.optim.Adam(bigram.parameters(), lr=0.1)
for _ in range(400):
    places = mg.randint(len(train) - 1, (4096,))
    loss = F.cross_entropy(bigram(train[places]), train[places + 1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with mg.no_grad():
    learning = F.cross_entropy(bigram(held_out[:-1]), held_out[1:]).item()
    learned_q = bigram.weight[id_of["q"]].softmax(-1)[after_q].item()
print(f"bigram by learning: {learning:.3f} nats; after 'q' comes {characters[after_q]!r} with {learned_q:.0%}")
assert abs(learning - counting) < 0.05

# %% [markdown]
# It arrives where counting arrives. Here is why. The gradient of the cross-entropy with respect to the logits
# is as simple as a gradient can be: the predicted probabilities, minus 1 for what came.

# %%
logits = mg.randn(5, requires_grad=True)
what_came = mg.tensor(2)
F.cross_entropy(logits, what_came).backward()
print("predicted probabilities:", " ".join(f"{p:6.3f}" for p in logits.softmax(-1).tolist()))
print("gradient, as 2 came:    ", " ".join(f"{g:6.3f}" for g in logits.grad.tolist()))
assert mg.allclose(logits.grad, logits.detach().softmax(-1) - F.one_hot(what_came, 5), atol=1e-6)

# %% [markdown]
# Over the whole text that is zero on average exactly where each probability equals the frequency of what it
# predicts. **Learning by cross-entropy is counting, wherever counting is possible.** Where it is not, it does
# something better.
#
# ## Looking further back
#
# A table for the last 16 characters would have V^16 rows, and almost every row would be empty. The transformer
# has no table. It has the parts of the last three lessons: attention (8), scaled (6), in a frame of residual
# and LayerNorm (7), and the two layers of lesson 5 for each token by itself.

# %%
CONTEXT, WIDTH, HEADS, LAYERS = 16, 32, 2, 2


class Block(nn.Module):
    """x <- norm(x + attention(x)), then x <- norm(x + feed_forward(x))."""

    def __init__(self):
        super().__init__()
        self.W_QKV = nn.Linear(WIDTH, 3 * WIDTH, bias=False)  # queries, keys and values in one matrix
        self.W_O = nn.Linear(WIDTH, WIDTH, bias=False)
        self.norm_attention = nn.LayerNorm(WIDTH)
        self.feed_forward = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.ReLU(), nn.Linear(4 * WIDTH, WIDTH))
        self.norm_feed_forward = nn.LayerNorm(WIDTH)

    def attention(self, x):
        B, T, _ = x.shape
        q, k, v = (
            part.view(B, T, HEADS, -1).transpose(1, 2) for part in self.W_QKV(x).chunk(3, -1)
        )  # (B, H, T, d_k)
        z = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, H, T, d_k): the six lines
        return self.W_O(z.transpose(1, 2).reshape(B, T, WIDTH))  # (B, T, d): the heads side by side, mixed

    def forward(self, x):
        x = self.norm_attention(x + self.attention(x))
        return self.norm_feed_forward(x + self.feed_forward(x))


class Transformer(nn.Module):
    """From token ids (B, T) to the logits of the tokens that follow each (B, T, V)."""

    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(V, WIDTH)
        self.position = nn.Embedding(CONTEXT, WIDTH)  # learned, where lesson 8 had waves
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.output = nn.Linear(WIDTH, V)

    def forward(self, ids):
        x = self.token(ids) + self.position.weight[: ids.shape[1]]  # (B, T, d)
        return self.output(self.blocks(x))  # (B, T, V)


mg.manual_seed(0)
model = Transformer()
size = sum(p.numel() for p in model.parameters())
print(f"{size:,} parameters; the bigram has {bigram.weight.numel():,}")


# %%
def loss_of(windows):
    """The loss on windows (B, T + 1): each position predicts the next, so a window holds T lessons at once."""
    return F.cross_entropy(model(windows[:, :-1]).reshape(-1, V), windows[:, 1:].reshape(-1))


def held_out_loss():
    """The loss on the held-out text, cut into windows."""
    n_windows = len(held_out) // (CONTEXT + 1)
    with mg.no_grad():
        return loss_of(held_out[: n_windows * (CONTEXT + 1)].reshape(n_windows, CONTEXT + 1)).item()


STEPS = 2000
optimizer = mg.optim.AdamW(model.parameters(), lr=5e-3)
# The rate rises for 50 steps, and falls to 0 along a cosine.
schedule = mg.optim.lr_scheduler.LambdaLR(
    optimizer, lambda step: min(1, (step + 1) / 50) * (1 + math.cos(math.pi * step / STEPS)) / 2
)
started = time.perf_counter()
for step in range(STEPS + 1):
    if step in (0, 50, 100, 200, 500, 1000, STEPS):
        now = held_out_loss()
        print(f"step {step:4d}: {now:.3f} nats, {math.exp(now):5.1f} choices")
    starts = mg.randint(len(train) - CONTEXT, (16, 1))
    loss = loss_of(train[starts + mg.arange(CONTEXT + 1)])
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
print(f"that took {time.perf_counter() - started:.0f} seconds; the bigram has {counting:.3f} nats")
assert now < counting - 0.3

# %% [markdown]
# After a few hundred steps it leaves the best possible bigram behind. Let both write. Each takes the last
# characters, rolls dice with the probabilities it gives, appends the result, and starts over: that is all that
# *generating* is.


# %%
def write(logits_after, n=240):
    """Continue a line break by n characters."""
    written = [id_of["\n"]]
    with mg.no_grad():
        for _ in range(n):
            probabilities = logits_after(mg.tensor([written[-CONTEXT:]])).softmax(-1)
            written.append(mg.multinomial(probabilities, 1).item())
    return "".join(characters[i] for i in written).strip()


mg.manual_seed(1)
print("--- the bigram:")
print(write(lambda ids: bigram(ids[0, -1])))
print("--- the transformer:")
print(write(lambda ids: model(ids)[0, -1]))

# %% [markdown]
# Neither makes sense yet, but the difference is there to see: one has learned letters, the other is on its way
# to words. Large language models have the same parts. They are wider, deeper, and see more text.
#
# ## Exercise
#
# How much of the gain comes from looking back? Train with `CONTEXT = 1`, then 2, 4 and 8, and draw the losses
# with that for 16 on paper. What do you expect at 1? (The assertion after the training will complain: that is
# the answer to the question.)
#
# *Check:* about 2.40, 2.20, 2.03, 1.86 and 1.72 nats. With one character to look at, a transformer is a bigram,
# and no feed-forward layer can help it. Each doubling still gains something.
