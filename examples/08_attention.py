# %% [markdown]
# # 8. Attention in six lines
#
# **Each token starts as the same vector wherever it stands. How does it learn what is around it?**
#
# "Bank" after "river" and "bank" after "savings" begin as the same row of a table. To differ, the token must
# gather something from the tokens before it. From which? It asks. Each token sends out a *query* (what I look
# for), shows a *key* (what I am), and holds a *value* (what I give). Where a query fits a key, the value flows.

# %%
import math

import minigrad as mg
from minigrad.nn import functional as F


def attention(x, W_Q, W_K, W_V):
    """What each token gathers from itself and those before it: (T, d) -> (T, d_v), and the weights (T, T)."""
    q, k, v = x @ W_Q, x @ W_K, x @ W_V  # (T, d_k), (T, d_k), (T, d_v)
    scores = q @ k.mT / math.sqrt(k.shape[-1])  # (T, T): query t against key s
    past = mg.ones(len(x), len(x)).tril() == 1  # (T, T): True where s <= t
    scores = scores.masked_fill(~past, -math.inf)  # the future is forbidden
    weights = scores.softmax(-1)  # (T, T): each row sums to 1
    return weights @ v, weights  # (T, d_v): for each token a mean of the values, by weight


mg.manual_seed(0)
T, d, d_k = 6, 8, 4
x = mg.randn(T, d, requires_grad=True)
W_Q, W_K, W_V = mg.randn(3, d, d_k) / math.sqrt(d)  # three matrices (8, 4)
out, weights = attention(x, W_Q, W_K, W_V)

print("who looks at whom (row: who looks)")
for row in weights.tolist():
    print("  " + " ".join(f"{weight:4.2f}" for weight in row))
assert mg.allclose(weights.sum(-1), mg.ones(T))
assert mg.allclose(
    out, F.scaled_dot_product_attention(*(x @ W for W in (W_Q, W_K, W_V)), is_causal=True), atol=1e-5
)

# %% [markdown]
# That is all of it: no loop over the tokens, three matrices, and a softmax. The last line compares the six
# lines with the library function, `F.scaled_dot_product_attention`, which does the same in fewer passes over
# the memory.
#
# ## A gradient as a microscope
#
# Does the mask keep its promise? A derivative answers questions of the form "does this depend on that?" for
# every number at once. Take the output of token 2, and ask for its gradient with respect to all tokens:

# %%
(influence,) = mg.autograd.grad(out[2].sum(), x, retain_graph=True)
print("influence on the output of token 2:", " ".join(f"{size:.2f}" for size in influence.norm(dim=-1).tolist()))
assert (influence[:3] != 0).any(-1).all(), "it depends on tokens 0, 1 and 2"
assert (influence[3:] == 0).all(), "and on nothing that comes later, exactly"

# %% [markdown]
# ## The surprise: attention cannot count
#
# "Dog bites man" is not "man bites dog". Shuffle the first five tokens, and look at what the last one gathers:

# %%
shuffled = x[mg.tensor([3, 1, 4, 0, 2, 5])]
before, after = out[-1], attention(shuffled, W_Q, W_K, W_V)[0][-1]
print("in order: ", " ".join(f"{number:6.3f}" for number in before.tolist()))
print("shuffled: ", " ".join(f"{number:6.3f}" for number in after.tolist()))
assert mg.allclose(before, after, atol=1e-5)

# %% [markdown]
# The same numbers. A mean does not know in which order things were added: for attention the past is a *bag*. So
# the place of each token has to be written into its vector. The original paper adds waves of different lengths:
# as with the hands of a clock, each position has its own pattern, and one step further is always the same
# rotation.


# %%
def sinusoids(n_positions, width):
    """Row t holds sin and cos of t · 10000^(−2i / width)."""
    position = mg.arange(float(n_positions)).unsqueeze(1)  # (T, 1)
    rate = 10000 ** (-mg.arange(0.0, width, 2) / width)  # (width / 2,)
    angle = position * rate  # (T, width / 2)
    return mg.stack([angle.sin(), angle.cos()], -1).reshape(n_positions, width)


positions = sinusoids(T, d)
before = attention(x + positions, W_Q, W_K, W_V)[0][-1]
after = attention(shuffled + positions, W_Q, W_K, W_V)[0][-1]
print("with positions, in order: ", " ".join(f"{number:6.3f}" for number in before.tolist()))
print("with positions, shuffled: ", " ".join(f"{number:6.3f}" for number in after.tolist()))
assert not mg.allclose(before, after, atol=0.1)

# %% [markdown]
# ## Teach a head where to look
#
# Enough of random matrices. The task: at each position, name the letter that stood there **three steps ago**. A
# head can do it if it learns to look three steps back; it is not told how. It reads the letters and the
# positions, and the error flows through the six lines into its three matrices.

# %%
mg.manual_seed(1)
T, n_letters, width = 12, 5, 16
places = sinusoids(T, width)  # (T, 16)
W_Q = (0.3 * mg.randn(n_letters + width, 16)).requires_grad_()
W_K = (0.3 * mg.randn(n_letters + width, 16)).requires_grad_()
W_V = (0.3 * mg.randn(n_letters + width, n_letters)).requires_grad_()  # the values are scores of the five letters
optimizer = mg.optim.Adam([W_Q, W_K, W_V], lr=0.03)


def show(weights):
    for row in weights.tolist():
        print("  " + "".join(" .:-=+*#%@"[min(9, int(10 * weight))] * 2 for weight in row))


for step in range(1001):
    letters = mg.randint(n_letters, (T,))
    x = mg.cat([F.one_hot(letters, n_letters).float(), places], -1)  # (T, 5 + 16)
    out, weights = attention(x, W_Q, W_K, W_V)  # (T, 5)
    loss = F.cross_entropy(out[3:], letters[:-3])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step in (0, 100, 1000):
        print(f"step {step}, loss {loss:.3f}: where each token looks, from {' '!r} = 0 to '@' = all")
        show(weights)

three_back = weights.diagonal(-3)
print(f"weight on the token three steps back: {three_back.mean():.0%}")
assert three_back.mean() > 0.9

# %% [markdown]
# At the start everybody looks at everything. At the end there is one diagonal line: the head has *written the
# program* "look three back" into its matrices, by gradient descent alone. (The first three rows have nothing to
# find, and were not asked.) Heads that look at the token before are among the first things that language models
# learn as well.
#
# ## Exercise
#
# Change the task: name the *first* letter of the sequence (the targets are `letters[:1].repeat(T)`, for all T
# positions of `out`). What will the picture be, and what will the last assertion say? And what if you take away
# the positions, by `0 * places`?
#
# *Check:* the first column fills up, and the loss falls to about 0.01. Without positions a head cannot know
# which letter came first, except at the very beginning, where it is alone: the loss stays near 1.5.
