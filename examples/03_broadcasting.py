# %% [markdown]
# # 3. Broadcasting, and its gradient
#
# **A bias of three numbers is added to a table of four rows. Four rows of gradients come back: where do they
# go?**
#
# NumPy, PyTorch and minigrad stretch a small array to fit a large one. It is so convenient that one forgets
# that it is an operation, with a derivative like any other.

# %%
import minigrad as mg

table = mg.arange(12.0).reshape(4, 3)
bias = mg.tensor([10.0, 20.0, 30.0], requires_grad=True)
result = table + bias  # (4, 3) + (3,): the bias is added to every row
print(result.detach())

# %% [markdown]
# Each number of the bias was used four times, once in every row. Lesson 2 said: a number used four times
# influences the result in four ways, and influences add up. So its gradient is the **sum down the column**.

# %%
arriving = mg.tensor([[1.0, 0.0, 2.0], [1.0, 0.0, 2.0], [1.0, 0.0, 2.0], [1.0, 5.0, -6.0]])
result.backward(arriving)  # as if these were the gradients that come from further up
print("arriving:      ", arriving.tolist())
print("for the bias:  ", bias.grad.tolist())
assert bias.grad.tolist() == arriving.sum(0).tolist() == [4.0, 5.0, 0.0]

# %% [markdown]
# **Copying forward is adding backward.** It holds the other way round as well: `sum` adds up forward, so
# backward it copies, and every element gets the same gradient.

# %%
numbers = mg.tensor([5.0, -2.0, 9.0], requires_grad=True)
numbers.sum().backward()
print("the gradient of a sum:", numbers.grad.tolist())
assert numbers.grad.tolist() == [1.0, 1.0, 1.0]

# %% [markdown]
# ## The rule, typed by hand
#
# Broadcasting does two things: it puts missing dimensions in front, and it stretches dimensions of size 1. To
# undo it, sum over both.


# %%
def sum_to_shape(gradient, shape):
    """Bring a gradient back to the shape that was broadcast."""
    in_front = gradient.ndim - len(shape)
    gradient = gradient.sum(tuple(range(in_front))) if in_front else gradient
    stretched = tuple(d for d, size in enumerate(shape) if size == 1 and gradient.shape[d] != 1)
    return gradient.sum(stretched, keepdim=True) if stretched else gradient


mg.manual_seed(0)
print("shape of x      shape of y      gradient of x")
for shape_x, shape_y in [((3,), (4, 3)), ((4, 1), (4, 3)), ((4, 1), (1, 3)), ((), (2, 2)), ((1, 5, 1), (6, 1, 2))]:
    x = mg.randn(shape_x, requires_grad=True)
    y = mg.randn(shape_y)
    product = x * y
    arriving = mg.randn(product.shape)
    product.backward(arriving)
    by_hand = sum_to_shape(arriving * y, shape_x)  # the rule of a product, then the sum
    print(f"{tuple(shape_x)!s:15} {tuple(shape_y)!s:15} {tuple(x.grad.shape)!s}")
    assert x.grad.shape == shape_x
    assert mg.allclose(x.grad, by_hand, atol=1e-5)

# %% [markdown]
# A gradient always has the shape of the thing it belongs to. The engine does this sum in one place for all
# operations, so the rules themselves can ignore broadcasting: the rule of `x * y` is `g * y`, and nothing more.
#
# ## The surprise: the bug that trains
#
# Here are twenty points on the line y = 2 x + 1, with a little noise. We fit it twice. The two programs differ
# in one pair of brackets: the targets are of shape (20, 1) in one and (20,) in the other.


# %%
def fit(inputs, targets, steps=400):
    """Fit a line to inputs (n, 1) by gradient descent; return its slope, intercept and last loss."""
    slope = mg.zeros(1, 1, requires_grad=True)
    intercept = mg.zeros(1, requires_grad=True)
    for _ in range(steps):
        predictions = inputs @ slope + intercept  # (n, 1)
        loss = ((predictions - targets) ** 2).mean()
        loss.backward()
        with mg.no_grad():
            for parameter in (slope, intercept):
                parameter -= 0.1 * parameter.grad
                parameter.grad = None
    return slope.item(), intercept.item(), loss.item()


inputs = mg.linspace(-1, 1, 20).reshape(20, 1)
targets = 2 * inputs + 1 + 0.1 * mg.randn(20, 1)

good = fit(inputs, targets)
bad = fit(inputs, targets.reshape(20))
print("targets    slope  intercept   loss")
print(f"(20, 1)   {good[0]:6.3f} {good[1]:9.3f} {good[2]:8.3f}")
print(f"(20,)     {bad[0]:6.3f} {bad[1]:9.3f} {bad[2]:8.3f}")
assert abs(good[0] - 2) < 0.15
assert abs(bad[0]) < 1e-3
assert abs(bad[1] - targets.mean().item()) < 1e-3

# %% [markdown]
# No error and no warning: the loss goes down, and the fitted line is flat. What happened? (20, 1) − (20,)
# broadcasts to (20, 20): every prediction is compared with *every* target. What pleases all targets at once is
# their mean, so that is what the model learned, for every input.

# %%
differences = inputs - targets.reshape(20)
print("the shape of the differences:", tuple(differences.shape))
assert differences.shape == (20, 20)

# %% [markdown]
# Remember it as this: **a model that predicts the mean for everything has a broadcasting bug until proven
# otherwise.** Write the shapes at the ends of your lines, as in `# (n, 1)` above, and use
# `nn.functional.mse_loss`, which warns.
#
# ## Exercise
#
# The variance of each row of a table is `((t - t.mean(1, keepdim=True)) ** 2).mean(1)`. Leave out
# `keepdim=True`: for a table of shape (4, 3) you get an error, but for a table of shape (3, 3) you get wrong
# numbers without a word. Why? Then find the gradient of the sum of the row variances of `mg.tensor([[1., 2.,
# 3.]])` with pencil and paper, and with `backward()`.
#
# *Check:* the gradient is 2/3 of the deviations from the mean: −2/3, 0, 2/3. What became of the part that goes
# through the mean? It is zero, as deviations sum to zero.
