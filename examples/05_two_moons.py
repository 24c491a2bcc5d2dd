# %% [markdown]
# # 5. A network draws a curve
#
# **A neuron can only draw a straight line. How do a few of them draw a curve?**
#
# The two moons: points of two kinds, bent around each other so that no straight line can part them.

# %%
import math

import minigrad as mg
from minigrad import nn
from minigrad.nn import functional as F

mg.manual_seed(0)
half_turn = mg.linspace(0, math.pi, 100)
upper = mg.stack([half_turn.cos(), half_turn.sin()], 1)
lower = mg.stack([1 - half_turn.cos(), 0.5 - half_turn.sin()], 1)
points = mg.cat([upper, lower]) + 0.1 * mg.randn(200, 2)  # (200, 2)
kinds = mg.cat([mg.zeros(100, 1), mg.ones(100, 1)])  # (200, 1)


def picture(model):
    """Print the points, o and x, and shade the region that the model takes for that of x."""
    columns, rows = mg.linspace(-1.5, 2.5, 64), mg.linspace(1.4, -0.9, 20)
    grid = mg.stack([columns.repeat(20), rows.repeat_interleave(64)], 1)  # (20 · 64, 2), row by row
    with mg.no_grad():
        is_x = (model(grid) > 0).reshape(20, 64)
    canvas = [["." if inside else " " for inside in row] for row in is_x.tolist()]
    for (x, y), kind in zip(points.tolist(), kinds.flatten().tolist(), strict=True):
        canvas[round((1.4 - y) / 2.3 * 19)][round((x + 1.5) / 4 * 63)] = "x" if kind else "o"
    print("\n".join("".join(row) for row in canvas))


# %% [markdown]
# ## One neuron
#
# The model gives a number for each point, a *logit*: above 0 means x. The loss is the cross-entropy, the
# surprise (in nats) at being told the right answer. Training is the loop of lesson 1, with two conveniences:
# `nn.Module` holds the parameters, and an optimiser takes the steps. Adam gives each parameter a step size of
# its own.


# %%
def train(model, steps=400):
    """Learn the moons; return the share of points that the model gets right."""
    optimizer = mg.optim.Adam(model.parameters(), lr=0.03)
    for _ in range(steps):
        loss = F.binary_cross_entropy_with_logits(model(points), kinds)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with mg.no_grad():
        return ((model(points) > 0) == (kinds > 0)).float().mean().item()


line = nn.Linear(2, 1)
right = train(line)
picture(line)
print(f"one neuron: {right:.1%} right")
assert 0.8 < right < 0.95

# %% [markdown]
# ## Sixteen neurons, and a bend in each
#
# Now two layers. Each of the sixteen hidden neurons draws a straight line, and ReLU, max(0, x), lets through
# what lies on one side of it. The last neuron adds up what they let through: flat pieces, joined at the sixteen
# lines.

# %%
network = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
right = train(network)
picture(network)
print(f"sixteen neurons with a bend: {right:.1%} right")
print(network.summary(points))
assert right > 0.98

# %% [markdown]
# Look at it from the last layer's side: it is still one neuron that draws one straight line, only no longer in
# the plane. It draws it in the sixteen-dimensional space of what the hidden neurons say. The hidden layer has
# moved the points to where a straight line suffices. Deep learning is this, repeated.
#
# ## The surprise: depth without a bend is nothing
#
# If two layers are good, are four better? Leave out the bend and see:

# %%
straight = nn.Sequential(nn.Linear(2, 64), nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 1))
right = train(straight)
picture(straight)
print(
    f"four layers without a bend, {sum(p.numel() for p in straight.parameters()):,} parameters: {right:.1%} right"
)
assert right < 0.95

# %% [markdown]
# A straight line, whatever we spend. Linear after linear is linear: W₂ (W₁ x) = (W₂ W₁) x. All those parameters
# fold into three, and we can compute them:

# %%
with mg.no_grad():
    weight, bias = mg.eye(2), mg.zeros(2)
    for layer in straight:
        weight, bias = layer.weight @ weight, layer.weight @ bias + layer.bias
    print(f"the four layers are this line: {weight[0, 0]:.2f} x + {weight[0, 1]:.2f} y + {bias[0]:.2f} > 0")
    assert mg.allclose(points @ weight.T + bias, straight(points), atol=1e-3)

# %% [markdown]
# ## Exercise
#
# How many hidden neurons do the moons need? Try 1, 2, 3, 4 and 8, each with `mg.manual_seed` 0 to 4, and take
# the best of the five. Look at the pictures: count the corners of the boundary. Then replace ReLU by
# `nn.Tanh()`: where have the corners gone?
#
# *Check:* one or two hidden neurons get about nine in ten right, like the straight line; four get all of them
# right in their best run, though not in every run. Tanh makes do with three, and draws round corners.
