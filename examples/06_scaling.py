# %% [markdown]
# # 6. Why √d_k
#
# **Attention divides its scores by the square root of d_k. What would happen if it did not?**
#
# In attention every token has a *query* (what it looks for) and a *key* (what it has to offer), both vectors of
# d_k numbers. Their dot product is a score, and softmax makes weights of the scores: positive, with the sum 1.
# Start with one query, ten keys, and random numbers, as every network does.

# %%
import math

import minigrad as mg

mg.manual_seed(0)
print("  d_k   typical score   square root of d_k")
for d_k in (4, 16, 64, 256, 1024):
    q, k = mg.randn(1000, d_k), mg.randn(1000, d_k)
    scores = (q * k).sum(-1)  # (1000,): a thousand dot products
    print(f"{d_k:5d} {scores.std():15.2f} {math.sqrt(d_k):20.2f}")
    assert abs(scores.std().item() / math.sqrt(d_k) - 1) < 0.15

# %% [markdown]
# A dot product of random vectors is a walk of d_k random steps, and such a walk ends about √d_k from where it
# began. Wider heads have larger scores, for no other reason than their width.
#
# ## What large scores do to softmax
#
# Softmax looks at *differences* of scores: e^(difference) is the ratio of two weights. At a difference of 20,
# the ratio is half a billion. The same ten scores, larger and larger:

# %%
ten = mg.randn(10)
for factor in (0.1, 1, 4, 16, 64):
    weights = (factor * ten).softmax(-1)
    print(f"times {factor:<4g}", " ".join(f"{weight:5.3f}" for weight in weights.tolist()))
assert weights.max() > 0.999

# %% [markdown]
# From "a bit of everyone" to "this one and nobody else". That would be fine if it were the result of learning.
# Here it is an accident of the first random numbers, and the trouble is to get out of it again, because the
# **gradient** is gone. How much would the weights change if a score changed? Let us ask for the gradient of the
# largest weight:


# %%
def largest_weight_and_gradient(d_k, divide_by):
    """Return the mean of the largest weight and the median size of its gradient, for random queries and keys."""
    q, k = mg.randn(200, 1, d_k), mg.randn(200, 10, d_k)
    scores = ((q * k).sum(-1) / divide_by).requires_grad_()  # (200, 10): 200 queries, ten keys each
    largest = scores.softmax(-1).amax(-1)  # (200,)
    largest.sum().backward()
    return largest.mean().item(), scores.grad.norm(dim=-1).sort().values[100].item()


table = {}
for name, power in (("nothing", 0), ("sqrt(d_k)", 0.5), ("d_k", 1)):
    print(f"scores divided by {name}")
    print("  d_k   largest weight   its gradient")
    for d_k in (4, 16, 64, 256, 1024):
        table[name, d_k] = weight, gradient = largest_weight_and_gradient(d_k, d_k**power)
        print(f"{d_k:5d} {weight:16.3f} {gradient:14.1e}")

assert table["nothing", 1024][1] < 1e-3 * table["nothing", 4][1], "without the root the gradient vanishes"
assert table["sqrt(d_k)", 1024][1] > 0.5 * table["sqrt(d_k)", 4][1], "with it, the width does not matter"
assert table["d_k", 1024][0] < 0.15, "divided by d_k itself, all ten weigh the same: 1/10"

# %% [markdown]
# Three regimes. Divided by nothing, attention is stuck with the first key that happened to win. Divided by d_k,
# it cannot prefer anybody: each of ten gets a tenth. Only the square root makes the start independent of the
# width: a mild preference and a healthy gradient.
#
# ## The surprise: the same network, stuck
#
# Does it matter in training? Sixteen keys of width 256, and a query for each. Query i has to learn to look at
# key i. The queries start random, and the loss is the squared distance between the weights and what they should
# be. To be fair, each way may choose its own best rate from six.


# %%
def learn_to_look(divide_by, rate, steps=300):
    """Return the share of attention that goes where it should, after training the queries."""
    mg.manual_seed(1)
    keys = mg.randn(16, 256)
    queries = mg.randn(16, 256, requires_grad=True)
    for _ in range(steps):
        weights = (queries @ keys.T / divide_by).softmax(-1)  # (16, 16)
        loss = ((weights - mg.eye(16)) ** 2).sum(-1).mean()
        (slope,) = mg.autograd.grad(loss, queries)
        queries = (queries - rate * slope).detach().requires_grad_()
    return weights.detach().diagonal().mean().item()


rates = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
best = {}
for name, divide_by in (("nothing", 1.0), ("sqrt(d_k)", math.sqrt(256))):
    found = [learn_to_look(divide_by, rate) for rate in rates]
    best[name] = max(found)
    print(f"divided by {name}: the share of attention on the right key is")
    print("  " + "   ".join(f"rate {rate:g}: {share:.0%}" for rate, share in zip(rates, found, strict=True)))
assert best["sqrt(d_k)"] > 0.95
assert best["nothing"] < 0.3

# %% [markdown]
# Without the root no rate helps: a small one does nothing, since the gradient is nothing, and a large one
# throws the queries about without making the scores smaller. With it, all attention ends where it belongs.
#
# ## Exercise
#
# The variance of a dot product is a sum of d_k variances. Show with pencil and paper that it is d_k if all
# numbers are independent with mean 0 and variance 1. Now suppose that the keys have the standard deviation 3:
# by what should the scores be divided? Check it by changing `k = mg.randn(...)` to `k = 3 * mg.randn(...)` in
# `largest_weight_and_gradient`.
#
# *Check:* by 3 √d_k; the middle table is then as it was. (In a real network it is LayerNorm, of the next
# lesson, that keeps the standard deviation at 1.)
