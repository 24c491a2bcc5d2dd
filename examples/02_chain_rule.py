# %% [markdown]
# # 2. The chain rule is a graph
#
# **A loss depends on a million numbers. How can one pass backwards find the influence of each?**
#
# Any computation, however long, is a chain of small steps, and of each small step we know the derivative by
# heart. The chain rule says how to join them: multiply along a path, add up over paths.

# %%
x, w, b = 2.0, -3.0, 7.0

product = x * w
total = product + b
y = total**3
print(f"forward:   product = {product:g}   total = {total:g}   y = {y:g}")

# Backwards: start with 1, the derivative of y with respect to itself. Each line is one step's own derivative,
# times what has arrived from above.
d_y = 1.0
d_total = 3 * total**2 * d_y  # y = total³
d_product = 1 * d_total  # total = product + b
d_b = 1 * d_total
d_x = w * d_product  # product = x · w
d_w = x * d_product
print(f"backward:  d y / d x = {d_x:g}   d y / d w = {d_w:g}   d y / d b = {d_b:g}")


def y_of(x, w, b):
    return (x * w + b) ** 3


tiny = 1e-6
assert abs((y_of(x + tiny, w, b) - y_of(x, w, b)) / tiny - d_x) < 1e-3
assert abs((y_of(x, w + tiny, b) - y_of(x, w, b)) / tiny - d_w) < 1e-3
assert abs((y_of(x, w, b + tiny) - y_of(x, w, b)) / tiny - d_b) < 1e-3

# %% [markdown]
# Note the order: `d_total` was computed once and served x, w and b. Going backwards, everything that the paths
# have in common is computed once. That is the whole trick, and it has the name *backpropagation*.
#
# ## An autodiff engine, typed by hand
#
# So that nobody has to write the backward lines, let each number remember what it was made of. Thirty lines
# suffice.


# %%
class Value:
    """A number that knows which numbers it came from, and the derivative with respect to each of them."""

    def __init__(self, data, made_from=()):
        self.data = data
        self.made_from = made_from  # pairs (value, local derivative)
        self.grad = 0.0

    def __add__(self, other):
        return Value(self.data + other.data, [(self, 1.0), (other, 1.0)])

    def __mul__(self, other):
        return Value(self.data * other.data, [(self, other.data), (other, self.data)])

    def backward(self):
        order = []

        def visit(value):  # whatever a value is made of comes before it
            if value not in order:
                for source, _ in value.made_from:
                    visit(source)
                order.append(value)

        visit(self)
        self.grad = 1.0
        for value in reversed(order):  # so when a value's turn comes, all that it influenced has been seen
            for source, local_derivative in value.made_from:
                source.grad += local_derivative * value.grad


x, w, b = Value(2.0), Value(-3.0), Value(7.0)
total = x * w + b
y = total * total * total
y.backward()
print(f"Value:     d y / d x = {x.grad:g}   d y / d w = {w.grad:g}   d y / d b = {b.grad:g}")
assert (x.grad, w.grad, b.grad) == (d_x, d_w, d_b)

# %% [markdown]
# Look at the last line of `backward`: `+=`, not `=`. `total` was used three times, and a number used three
# times influences y in three ways. Influences add up.
#
# With `=` the last path to arrive would erase the others. Here is that bug, planted on purpose:


# %%
class ForgetfulValue(Value):
    def __add__(self, other):
        return ForgetfulValue(self.data + other.data, [(self, 1.0), (other, 1.0)])

    def __mul__(self, other):
        return ForgetfulValue(self.data * other.data, [(self, other.data), (other, self.data)])

    def backward(self):
        self.grad = 1.0
        todo = [self]
        while todo:
            value = todo.pop()
            for source, local_derivative in value.made_from:
                source.grad = local_derivative * value.grad  # the bug
                todo.append(source)


right, wrong = Value(3.0), ForgetfulValue(3.0)
(right * right).backward()
(wrong * wrong).backward()
print(f"the slope of x * x at 3: {right.grad:g} with +=, {wrong.grad:g} with =")
assert right.grad == 6.0
assert wrong.grad == 3.0

# %% [markdown]
# ## The picture
#
# `minigrad` does the same with whole arrays in place of numbers. `mg.draw` shows the graph it recorded, from
# the result at the top down to what it was made of, with the gradient that arrived at each place. (In a
# notebook, write `mg.draw(y)` alone on the last line of a cell, and it is drawn; point at a card to see the
# rule.)

# %%
import minigrad as mg

x = mg.tensor(2.0, requires_grad=True)
w = mg.tensor(-3.0, requires_grad=True)
b = mg.tensor(7.0, requires_grad=True)
y = (x * w + b) ** 3
print(mg.draw(y))

y.backward()
assert (x.grad.item(), w.grad.item(), b.grad.item()) == (d_x, d_w, d_b)

# %% [markdown]
# And as a story, with every number. This time a value is used twice, so that two paths meet again:

# %%
x = mg.tensor(3.0, requires_grad=True)
y = x * x + x
print(mg.explain_backward(y))

# %% [markdown]
# ## The surprise: the price does not depend on how many
#
# Nudging must run the computation once more for each input. Backwards, one pass is enough for all of them. Let
# us count, with a product of n numbers, and see that both find the same derivatives:

# %%
runs = 0


def product_of(numbers):
    global runs
    runs += 1
    product = numbers[0]
    for number in numbers[1:]:
        product = product * number
    return product


print("inputs   runs for nudging   runs for backward")
for n in (10, 100, 1000):
    numbers = [1 + 0.2 * i / n for i in range(n)]

    runs = 0
    before = product_of(numbers)
    nudged = [(product_of([*numbers[:i], numbers[i] + 1e-6, *numbers[i + 1 :]]) - before) / 1e-6 for i in range(n)]
    runs_for_nudging = runs

    runs = 0
    tensors = [mg.tensor(number, dtype=mg.float64, requires_grad=True) for number in numbers]
    product_of(tensors).backward()
    print(f"{n:6d} {runs_for_nudging:18d} {runs:19d}")
    assert all(abs(tensor.grad.item() / slope - 1) < 1e-4 for tensor, slope in zip(tensors, nudged, strict=True))
    assert (runs_for_nudging, runs) == (n + 1, 1)

# %% [markdown]
# All derivatives together cost about two or three times the forward computation, whether there are ten inputs
# or a billion. Without this fact there would be no deep learning. (The other way round it is not so: one input
# and many outputs would need one backward pass for each output.)
#
# ## Exercise
#
# Give `Value` a method `tanh`, whose local derivative is 1 − tanh², and compute y = tanh(x w + b) for x = 2, w
# = −3, b = 6.9. What are the three gradients? Then call `y.backward()` a second time without making new Values:
# what has happened to the gradients of x, w and b, and which line of `backward` would you change? (PyTorch and
# minigrad leave this to you on purpose: it is why training loops say `optimizer.zero_grad()`.)
#
# *Check:* d y / d x = −1.4608, d y / d w = 0.9738, d y / d b = 0.4869. Also compare with `mg.draw(y)`.
