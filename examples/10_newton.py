# %% [markdown]
# # 10. The second derivative, and Newton's method
#
# **The gradient says which way is down. But how far should one go?**
#
# Until now a learning rate answered, and somebody had to guess it. Lesson 1 ended badly: with Celsius in ones
# instead of tens, the rate 0.1 exploded, and 0.001 took five thousand steps. The second derivative knows why,
# and knows better.

# %%
import math

import minigrad as mg

celsius = mg.tensor([-40.0, -10.0, 0.0, 10.0, 20.0, 30.0, 40.0], dtype=mg.float64)
fahrenheit = mg.tensor([-40.0, 14.0, 32.0, 50.0, 68.0, 86.0, 104.0], dtype=mg.float64)


def loss(p):
    """The mean squared error of lesson 1; p holds w and b."""
    return ((p[0] * celsius + p[1] - fahrenheit) ** 2).mean()


gradient_of, hessian_of = mg.func.grad(loss), mg.func.hessian(loss)
start = mg.zeros(2, dtype=mg.float64)
H = hessian_of(start)
print("gradient", gradient_of(start).tolist())
print("Hessian ", H.tolist())

# %% [markdown]
# The gradient has one number for each knob. The *Hessian* has one for each pair of knobs: how the slope of one
# changes when the other is turned. `mg.func.hessian` gets it by differentiating the gradient, which is a
# computation like any other.
#
# ## Why it exploded
#
# Along a direction with the curvature c, a step of gradient descent multiplies the distance from the bottom by
# (1 − rate · c). That shrinks only while rate < 2 / c. The curvatures of a valley are the eigenvalues of its
# Hessian; for two knobs there is a formula:

# %%
half_trace = (H[0, 0] + H[1, 1]).item() / 2
determinant = (H[0, 0] * H[1, 1] - H[0, 1] * H[1, 0]).item()
root = math.sqrt(half_trace**2 - determinant)
steepest, flattest = half_trace + root, half_trace - root
print(f"curvatures {steepest:.1f} and {flattest:.2f}: {steepest / flattest:.0f} to 1")
print(f"so gradient descent explodes above the rate 2 / {steepest:.1f} = {2 / steepest:.6f}")


def descend(rate, steps):
    """Return the loss after gradient descent from the start."""
    p = start
    for _ in range(steps):
        p = p - rate * gradient_of(p)
    return loss(p).item()


for share in (0.99, 1.01):
    print(f"300 steps at {share:.2f} times that rate: loss {descend(share * 2 / steepest, 300):.3g}")
assert descend(0.99 * 2 / steepest, 300) < loss(start).item()
assert descend(1.01 * 2 / steepest, 300) > loss(start).item()

# %% [markdown]
# On the edge to one percent. And with the largest rate that the steep direction allows, the flat one needs
# hundreds of steps: that is the ratio of the two curvatures.
#
# ## Newton's method
#
# If the gradient is g and the Hessian H, the bottom of the valley (as far as one can tell from here) is at p −
# H⁻¹ g: each direction gets its own rate, one over its curvature. No learning rate is left to guess.


# %%
def newton_step(gradient, H):
    """Return the solution s of H s = gradient, for two unknowns."""
    (a, b), (c, d) = H.tolist()
    x, y = gradient.tolist()
    return mg.tensor([d * x - b * y, a * y - c * x], dtype=mg.float64) / (a * d - b * c)


p = start - newton_step(gradient_of(start), hessian_of(start))
print(f"after one step: w = {p[0]:.10f}, b = {p[1]:.10f}, loss {loss(p):.1e}")
assert mg.allclose(p, mg.tensor([1.8, 32.0], dtype=mg.float64))

# %% [markdown]
# One step, for what took five thousand.
#
# ## A curved valley
#
# That loss was a perfect bowl. Rosenbrock's function is a narrow, bent valley, the standard torture of
# optimisers, with the bottom at (1, 1). There Newton's bowl only fits nearby, so it takes a few steps.


# %%
def rosenbrock(p):
    return (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2


gradient_of, hessian_of = mg.func.grad(rosenbrock), mg.func.hessian(rosenbrock)
bottom = mg.ones(2, dtype=mg.float64)

p = mg.tensor([-1.2, 1.0], dtype=mg.float64)
distances = []
print("step        x           y     distance from the bottom")
for step in range(8):
    distances.append((p - bottom).norm().item())
    print(f"{step:4d} {p[0]:11.7f} {p[1]:11.7f} {distances[-1]:14.1e}")
    p = p - newton_step(gradient_of(p), hessian_of(p))
assert distances[-1] < 1e-12

p = mg.tensor([-1.2, 1.0], dtype=mg.float64)
for _ in range(2000):
    p = p - 0.001 * gradient_of(p)
print(f"gradient descent, 2000 steps: distance {(p - bottom).norm():.1e}")
assert (p - bottom).norm().item() > 0.1

# %% [markdown]
# Look at the last rows: near the bottom each step **doubles the number of correct digits**. Gradient descent
# adds a fixed number of digits for each thousand steps.
#
# ## The surprise: Newton walks uphill
#
# Why then does nobody train networks so? A first reason: Newton looks for a place where the gradient is *zero*,
# and does not ask whether it is a valley or a peak. A ball between two valleys, with a hill at 0:


# %%
def two_valleys(x):
    return x**4 - 2 * x**2  # valleys at -1 and 1, with the value -1


x = mg.tensor(0.4, dtype=mg.float64)
slope_of, curvature_of = mg.func.grad(two_valleys), mg.func.grad(mg.func.grad(two_valleys))
for _ in range(5):
    print(f"x = {x:9.6f}   f(x) = {two_valleys(x):9.6f}   curvature {curvature_of(x):6.2f}")
    x = x - slope_of(x) / curvature_of(x)
assert abs(x.item()) < 1e-6, "it has climbed to the top"

# %% [markdown]
# It has climbed the hill and settled on the top, where the curvature is negative. In a million dimensions
# almost every place with gradient zero is such a saddle or peak.
#
# The second reason is the price: the Hessian of a million knobs has a million times a million entries. But one
# can ask it questions without ever writing it down. `mg.func.hvp` gives H v, for any v, at the price of about
# two gradients, and asking again and again for H v, H (H v), … makes the steepest direction stand out:

# %%
v = mg.tensor([1.0, 1.0], dtype=mg.float64)
for _ in range(5):
    _, Hv = mg.func.hvp(loss, start, v)
    v = Hv / Hv.norm()
print(f"steepest curvature without the Hessian: {Hv.norm():.4f}; from the Hessian: {steepest:.4f}")
assert abs(Hv.norm().item() - steepest) < 1e-6 * steepest

# %% [markdown]
# So one can know how large a learning rate may be, for networks of any size. (Adam, of lesson 5, is a poor
# man's Newton: it gives each knob a rate of its own, from nothing but the sizes of past gradients.)
#
# ## Exercise
#
# Newton's method can be taught not to climb: where the curvature is negative, use its absolute value. Change
# the last loop accordingly. Where does the ball go from x = 0.4, and where from −0.01? What goes wrong at x =
# 0.577, and at which x exactly?
#
# *Check:* to 1 and to −1. The curvature 12 x² − 4 is zero at x = 1/√3 = 0.57735…: near there the step is
# enormous. Real methods limit its length.
