# %% [markdown]
# # 7. Depth: residuals and LayerNorm
#
# **Why could nobody train networks of fifty layers before 2015, and anybody since?**
#
# A gradient on its way back is multiplied by something at every layer. Multiply a hundred numbers of about 0.5,
# or of about 1.5, and see what is left: 0.5^100 is 10^−30, and 1.5^100 is 10^17. A deep network has to keep
# that factor at 1.

# %%
import minigrad as mg
from minigrad import nn

WIDTH = 32


class Plain(nn.Module):
    """A layer as in lesson 5."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return self.linear(x).relu()


def look_at(layer, depth):
    """Return how far apart a stack of layers leaves different inputs, and how much gradient comes back to them."""
    mg.manual_seed(0)
    stack = nn.Sequential(*[layer() for _ in range(depth)])
    x = mg.randn(64, WIDTH, requires_grad=True)
    out = stack(x)  # (64, 32)
    (out * mg.randn(64, WIDTH)).sum().backward()  # at the output, the gradients have the standard deviation 1
    return out.std(0).mean().item(), x.grad.std().item()


def show(layer):
    print("depth   differences between outputs   gradient at the inputs")
    for depth in (2, 8, 32, 128):
        differences, gradient = look_at(layer, depth)
        print(f"{depth:5d} {differences:29.1e} {gradient:24.1e}")


print("plain layers")
show(Plain)
assert look_at(Plain, 32)[1] < 1e-10

# %% [markdown]
# After 32 layers nothing comes back: the first layer is told to change by a ten-trillionth. And forward it is
# as bad: all inputs have come out as one and the same. Whatever distinguished them was lost on the way.
#
# ## Two characters: `x +`
#
# A residual layer does not replace its input, it adds to it. The derivative of x + f(x) is 1 + f′(x): however
# small f′ is, the 1 carries the gradient past the layer. There is a road straight through from the loss to
# every layer.


# %%
class Residual(Plain):
    def forward(self, x):
        return x + self.linear(x).relu()


print("residual layers")
show(Residual)
assert look_at(Residual, 8)[1] > 1000 * look_at(Plain, 8)[1]
assert look_at(Residual, 128)[1] > 1e6

# %% [markdown]
# It no longer vanishes. But every layer adds something, and what is added grows with what is there: now it
# explodes.
#
# ## LayerNorm
#
# So bring each vector back to a standard size: subtract its mean, divide by its standard deviation. By hand:


# %%
def layer_norm(x):
    """Give each row of x (..., d) the mean 0 and the standard deviation 1."""
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / (variance + 1e-5).sqrt()


x = mg.tensor([[1.0, 2.0, 3.0, 6.0], [100.0, 200.0, 300.0, 600.0]])
print(layer_norm(x))
assert mg.allclose(layer_norm(x), nn.LayerNorm(4)(x), atol=1e-5)
assert mg.allclose(layer_norm(x)[0], layer_norm(x)[1], atol=1e-4), "the size is gone, the pattern stays"

# %% [markdown]
# (`nn.LayerNorm` also has a gain and an offset to learn, 1 and 0 at first.) With one after each sum, which is
# how the original transformer has it:


# %%
class Normed(Plain):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x):
        return self.norm(x + self.linear(x).relu())


print("residual layers with LayerNorm")
show(Normed)
assert 0.1 < look_at(Normed, 128)[1] < 100

# %% [markdown]
# From depth 2 to depth 128, both columns stay within what a learning rate can cope with.
#
# ## The surprise: same layers, same task
#
# The same 32 layers, the same initial weights, the same optimiser, the same task: from 32 random numbers, the
# product of the first two. Its variance is about 1, so a loss of about 1 means "has learned nothing but the
# mean".


# %%
def train(layer, depth=32, steps=120):
    """Return the losses of a deep network."""
    mg.manual_seed(0)
    x = mg.randn(256, WIDTH)
    y = x[:, 0:1] * x[:, 1:2]  # (256, 1)
    network = nn.Sequential(*[layer() for _ in range(depth)], nn.Linear(WIDTH, 1))
    optimizer = mg.optim.Adam(network.parameters(), lr=3e-3)
    losses = []
    for _ in range(steps):
        loss = nn.functional.mse_loss(network(x), y)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return losses


losses = {layer: train(layer) for layer in (Plain, Residual, Normed)}
print("step    plain   residual   residual + LayerNorm")
for step in (0, 10, 40, 119):
    print(f"{step:4d} {losses[Plain][step]:8.4f} {losses[Residual][step]:10.4g} {losses[Normed][step]:22.4f}")
assert losses[Plain][-1] > 0.9
assert losses[Normed][-1] < 0.01

# %% [markdown]
# The plain network never leaves the mean. The one with residuals alone starts with a loss of tens of thousands
# and spends its time coming down. With both, 32 layers simply learn. In every transformer, each attention and
# each feed-forward layer sits in exactly this frame: `norm(x + layer(x))`.
#
# ## Exercise
#
# Most models since GPT-2 normalise *before* the layer, `x + layer(norm(x))`, and leave the road itself alone.
# Write `PreNorm`, and compare it with `Normed` by `show` and `train`. Why do its outputs grow with depth, and
# why only slowly?
#
# *Check:* at depth 128 its gradient at the inputs is about 8, and the differences between outputs about 4. Each
# layer adds something of a fixed size to a road that gets longer: the sizes add up, they no longer multiply.
