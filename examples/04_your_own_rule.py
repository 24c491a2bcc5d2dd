# %% [markdown]
# # 4. A rule of your own, and how to trust it
#
# **A wrong derivative raises no error. How do you find out that it is wrong?**
#
# By nudging, as in lesson 1: it is slow and inexact, but it cannot be wrong in the same way as your algebra.
# First, what is the best nudge? The derivative of e^x at 1 is e, so here we know the truth:

# %%
import math

errors = {}
print("   nudge     error of (f(x+h) - f(x)) / h    error of (f(x+h) - f(x-h)) / 2h")
for exponent in range(1, 14, 2):
    h = 10.0**-exponent
    one_sided = abs((math.exp(1 + h) - math.exp(1)) / h - math.e)
    two_sided = abs((math.exp(1 + h) - math.exp(1 - h)) / (2 * h) - math.e)
    errors[exponent] = two_sided
    print(f"   1e-{exponent:<2d}  {one_sided:18.0e} {two_sided:32.0e}")
assert errors[5] < errors[1]
assert errors[5] < errors[13]

# %% [markdown]
# Smaller is *not* better. At 1e-13 the two values of the function agree in almost all of their sixteen digits,
# and their difference consists of rounding. The best nudge lies in the middle, and looking to both sides is
# worth three more digits. `gradcheck` looks at four places, and works in float64: of float32's seven digits
# next to nothing would be left.
#
# ## A rule
#
# Swish is x · σ(x), with σ(x) = 1 / (1 + e^−x): a ReLU with a rounded corner, used in many language models. To
# teach it to the engine, give the function and, for the gradient that arrives, the gradient to pass on: g · (σ
# + x · σ · (1 − σ)).

# %%
import minigrad as mg


class Swish(mg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x.sigmoid()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        s = x.sigmoid()
        return g * (s + x * s * (1 - s))


class WrongSwish(Swish):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        s = x.sigmoid()
        return g * (s + s * (1 - s))  # an x is missing


# %% [markdown]
# Both have the same forward pass, and nobody who looks at a forward pass sees the difference. `gradcheck` does:

# %%
mg.manual_seed(0)
x = mg.randn(5).double().requires_grad_()

assert mg.autograd.gradcheck(Swish.apply, (x,))
print("Swish:       gradcheck is content")

try:
    mg.autograd.gradcheck(WrongSwish.apply, (x,))
    caught = False
except RuntimeError as error:
    caught = True
    print("WrongSwish:", error)
assert caught

# %% [markdown]
# The rule is written with tensor operations, so it can be differentiated in turn, and checked at the second
# order too.

# %%
assert mg.autograd.gradgradcheck(Swish.apply, (x,))
print("Swish:       gradgradcheck is content")

# %% [markdown]
# ## Check where it is difficult
#
# The missing x is a factor of 1 at x = 1. Whoever tests at 1, that most natural of numbers, sees nothing:

# %%
assert mg.autograd.gradcheck(WrongSwish.apply, (mg.ones(3).double().requires_grad_(),))
print("WrongSwish:  gradcheck at x = 1 is content as well!")

# %% [markdown]
# So check with random numbers of both signs, and with different shapes; never with only zeros, ones or a single
# element. A gradient that arrives as all ones hides mistakes too, which is why `gradcheck` uses random ones.
#
# ## The surprise: wrong gradients train
#
# Would one not notice in training? Let us see. A network with one hidden layer learns one period of a sine,
# once with each rule:


# %%
def train(activation, steps=1500):
    """Fit sin(x) with a network 1 -> 16 -> 1; return the losses."""
    mg.manual_seed(1)
    x = mg.linspace(-math.pi, math.pi, 64).reshape(64, 1)
    y = x.sin()
    w1, b1 = mg.randn(1, 16).requires_grad_(), mg.zeros(16).requires_grad_()
    w2, b2 = (0.3 * mg.randn(16, 1)).requires_grad_(), mg.zeros(1).requires_grad_()
    losses = []
    for _ in range(steps):
        loss = ((activation(x @ w1 + b1) @ w2 + b2 - y) ** 2).mean()
        losses.append(loss.item())
        loss.backward()
        with mg.no_grad():
            for parameter in (w1, b1, w2, b2):
                parameter -= 0.05 * parameter.grad
                parameter.grad = None
    return losses


right, wrong = train(Swish.apply), train(WrongSwish.apply)
print("step       right rule    wrong rule")
for step in (0, 10, 100, 500, 1499):
    print(f"{step:4d} {right[step]:15.4f} {wrong[step]:13.4f}")
assert right[0] == wrong[0]
assert wrong[-1] < wrong[0] / 10, "the wrong gradient trains!"
assert right[-1] < wrong[-1], "but not as well"

# %% [markdown]
# The wrong loss falls, it just falls less far. You would blame the learning rate, the data, the architecture,
# for weeks. **Never conclude from a falling loss that the gradients are right.** Check them: it is one line.
#
# ## Exercise
#
# Write `Clip`: forward is `x.clamp(-1, 1)`, and backward passes `g` on unchanged where −1 < x < 1 and nothing
# elsewhere. Check it on `3 * mg.randn(20)` in double precision. Now let backward pass on `g` everywhere
# ("straight through", a trick that is used on purpose to train networks with rounded weights): what does
# `gradcheck` say?
#
# *Check:* the first passes (no random number lies within a nudge of ±1). The second fails with "the rule gives
# …, finite differences give 0", in as many entries as lie outside of [−1, 1].
