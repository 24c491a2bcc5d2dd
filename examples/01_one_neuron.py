# %% [markdown]
# # 1. One neuron, by hand
#
# **How can a program find a rule when it is shown nothing but examples?**
#
# Seven thermometer readings, each in Celsius and in Fahrenheit. Somewhere behind them is a rule with two
# numbers in it. We will not tell the program the rule. We will only tell it how wrong it is.
#
# (A cell is what stands between two `# %%` lines. Read it, guess what it prints, then run it.)

# %%
tens_of_celsius = [-4.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0]  # in tens of degrees; the end of the lesson shows why
fahrenheit = [-40.0, 14.0, 32.0, 50.0, 68.0, 86.0, 104.0]


def neuron(w, b, x):
    return w * x + b


def loss(w, b):
    """How wrong: the mean of the squared errors."""
    errors = [neuron(w, b, x) - y for x, y in zip(tens_of_celsius, fahrenheit, strict=True)]
    return sum(e * e for e in errors) / len(errors)


print("a neuron that knows nothing, w = 0 and b = 0, has the loss", round(loss(0.0, 0.0), 1))

# %% [markdown]
# ## Which way is better?
#
# Turn one knob a tiny bit and see what the loss does. The change of the loss, for each unit that the knob was
# turned, is the **derivative**. If it is negative, turning the knob up makes the loss smaller.

# %%
tiny = 1e-6
slope_w = (loss(0.0 + tiny, 0.0) - loss(0.0, 0.0)) / tiny
slope_b = (loss(0.0, 0.0 + tiny) - loss(0.0, 0.0)) / tiny
print(f"by nudging:   d loss / d w = {slope_w:.3f}   d loss / d b = {slope_b:.3f}")

# %% [markdown]
# Two knobs cost two extra evaluations of the loss. A language model has a billion knobs, so nudging is hopeless
# there. Calculus gives the same numbers without a nudge. Each example adds (w x + b − y)², and the chain rule
# says: the derivative of a square is twice what is inside, times the derivative of what is inside, which is x
# for w, and 1 for b.


# %%
def gradient(w, b):
    """The derivatives of the loss with respect to w and to b."""
    n = len(fahrenheit)
    errors = [neuron(w, b, x) - y for x, y in zip(tens_of_celsius, fahrenheit, strict=True)]
    for_w = sum(2 * e * x for e, x in zip(errors, tens_of_celsius, strict=True)) / n
    for_b = sum(2 * e * 1 for e in errors) / n
    return for_w, for_b


exact_w, exact_b = gradient(0.0, 0.0)
print(f"by calculus:  d loss / d w = {exact_w:.3f}   d loss / d b = {exact_b:.3f}")
assert abs(exact_w - slope_w) < 1e-2
assert abs(exact_b - slope_b) < 1e-2

# %% [markdown]
# ## Learning is walking downhill
#
# Both slopes are negative, so both knobs should go up, and each in proportion to its slope. That one line,
# repeated, is gradient descent. It is how every network in this course learns, and every network you have heard
# of.

# %%
w, b = 0.0, 0.0
rate = 0.1
print("step      w        b       loss")
for step in range(101):
    if step in (0, 1, 2, 5, 10, 20, 50, 100):
        print(f"{step:4d} {w:8.3f} {b:8.3f} {loss(w, b):10.4f}")
    for_w, for_b = gradient(w, b)
    w, b = w - rate * for_w, b - rate * for_b

print(f"\nFahrenheit = {w / 10:.2f} * Celsius + {b:.2f}")
assert abs(w - 18) < 1e-3
assert abs(b - 32) < 1e-3

# %% [markdown]
# Nobody wrote 1.8 or 32 into the program. It found them by being told how wrong it was.
#
# ## The same with `minigrad`
#
# From here on we write only the forward computation. A tensor with `requires_grad=True` remembers what is done
# with it, and `backward()` runs the chain rule through everything that happened. Every line below is also
# PyTorch: write `import torch as mg` and it runs as it stands.

# %%
import minigrad as mg

x = mg.tensor(tens_of_celsius)
y = mg.tensor(fahrenheit)
w = mg.tensor(0.0, requires_grad=True)
b = mg.tensor(0.0, requires_grad=True)

mean_squared_error = ((w * x + b - y) ** 2).mean()
mean_squared_error.backward()
print(f"by backward:  d loss / d w = {w.grad:.3f}   d loss / d b = {b.grad:.3f}")
assert abs(w.grad.item() - exact_w) < 1e-3
assert abs(b.grad.item() - exact_b) < 1e-3

# %% [markdown]
# ## The surprise: units matter
#
# Surely it makes no difference whether Celsius is counted in tens or in ones? The same neuron, the same rate,
# the same examples, times ten:


# %%
def learn(x, y, rate, steps):
    """Return w, b and all losses of a gradient descent from 0."""
    w = mg.tensor(0.0, requires_grad=True)
    b = mg.tensor(0.0, requires_grad=True)
    losses = []
    for _ in range(steps):
        loss = ((w * x + b - y) ** 2).mean()
        losses.append(loss.item())
        loss.backward()
        with mg.no_grad():  # the step itself is not part of what we differentiate
            w -= rate * w.grad
            b -= rate * b.grad
        w.grad = b.grad = None  # backward() adds to what is there, so clear it
    return w.item(), b.item(), losses


_, _, in_tens = learn(x, y, rate=0.1, steps=6)
_, _, in_ones = learn(10 * x, y, rate=0.1, steps=6)
print("loss with Celsius in tens:", "  ".join(f"{value:.3g}" for value in in_tens))
print("loss with Celsius in ones:", "  ".join(f"{value:.3g}" for value in in_ones))
assert in_tens[-1] < in_tens[0] / 10
assert in_ones[-1] > in_ones[0] * 1e9

# %% [markdown]
# It explodes. With x ten times as large the slope for w is ten times as large, and so is what a step of w does
# to the output: the valley is a hundred times as steep in that direction, and each step leaps over it to a
# higher point on the other side. A smaller rate avoids that, but then b, whose direction is as flat as before,
# crawls:

# %%
print("steps      w        b")
for steps in (10, 100, 1000, 5000):
    w_found, b_found, _ = learn(10 * x, y, rate=0.001, steps=steps)
    print(f"{steps:5d} {w_found:8.3f} {b_found:8.3f}")
assert abs(b_found - 32) < 0.01

# %% [markdown]
# What took fifty steps takes thousands. One rate has to serve all knobs, so the inputs of a network should all
# be of about the same size: around 1. This is why images are divided by 255, why lesson 7 normalises every
# layer, and what Adam, the optimiser of lesson 5, is for.
#
# ## Exercise
#
# Someone misreads one thermometer: change the last `104.0` to `68.0`, and run `learn(x, y, 0.1, 200)`. Then
# replace `** 2` by `.abs()` and run `learn(x, y, 0.02, 5000)`. Which of the two losses forgives a single liar,
# and why? (Look at the derivative of each: how does the pull of an example grow with its error?)
#
# *Check:* the squares end at w = 15.28, b = 28.80, wrong for everybody; the absolute values within 0.1 of 18
# and 32.
