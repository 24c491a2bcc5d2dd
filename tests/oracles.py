"""What derivatives are compared with: differences of values, which know no rules; numbers; and PyTorch."""

import numpy as np
from tensors import leaf

import minigrad as mg

STEP = np.finfo(np.float64).eps ** 0.2


def differences(function, arrays, step=STEP):
    """Return the derivative of ``function(arrays)``, a number, with respect to every element of every array.

    The four-point central difference

        f'(x) ≈ (8 (f(x+h) − f(x−h)) − (f(x+2h) − f(x−2h))) / 12h

    leaves out terms from h⁴ f⁗′(x) / 30 on, and the rounding of f adds an error of about ε f / h.  Both are
    small where h ≈ ε^(1/5) ≈ 7·10⁻⁴: near 10⁻¹² f, five digits more than the tests ask for.  A smaller step
    is for functions whose kinks lie close by.
    """
    arrays = [np.array(array) for array in arrays]
    results = []
    for array in arrays:
        result = np.zeros(array.shape)
        for index in np.ndindex(array.shape):
            value = array[index]
            h = step * max(1.0, abs(value))
            total = 0.0
            for factor, offset in ((8, h), (-8, -h), (-1, 2 * h), (1, -2 * h)):
                array[index] = value + offset
                total += factor * function(arrays)
            array[index] = value
            result[index] = total / (12 * h)
        results.append(result)
    return results


def weighted(outputs, weights):
    """Return Σ w · y over all outputs: the number whose gradient is the product of w with the Jacobian."""
    return sum(float(np.sum(w * y)) for y, w in zip(outputs, weights, strict=True))


def assert_close(actual, expected, rtol, floor=0.0, what="gradient"):
    """Hold ``actual`` to ``expected``: every entry within rtol times the largest entry, or within ``floor``.

    The largest entry, not each by itself: a sum of large terms that cancel has the error of the terms.
    """
    assert actual.shape == expected.shape, f"{what}: shape {actual.shape}, not {expected.shape}"
    bound = rtol * np.max(np.abs(expected), initial=0.0) + floor
    error = np.abs(actual - expected)
    assert np.all(error <= bound), f"{what}: error {np.max(error):.3g} above {bound:.3g}\n{actual}\n{expected}"


def assert_gradient(function, x, expected, cotangent=1.0):
    """Hold d⟨g, function(x)⟩/dx to ``expected``, for g = cotangent and for g = −3 · cotangent."""
    for factor in (1.0, -3.0):
        start = leaf(x)
        out = function(start)
        g = mg.tensor(np.broadcast_to(factor * np.asarray(cotangent), out.shape).astype(np.float64))
        (found,) = mg.autograd.grad(out, start, g)
        np.testing.assert_allclose(found.numpy(), factor * np.asarray(expected), rtol=1e-14, atol=0)


def same_on_pytorch(torch, ours, theirs, inputs, rtol=1e-12):
    """Hold a function of float64 arrays to PyTorch's: its values, and its gradients for random cotangents."""
    mine = [mg.tensor(x, requires_grad=True) for x in inputs]
    peers = [torch.tensor(x, requires_grad=True) for x in inputs]
    y, z = ours(*mine), theirs(*peers)
    assert y.shape == tuple(z.shape)
    np.testing.assert_allclose(y.detach().numpy(), z.detach().numpy(), rtol=rtol, atol=1e-13)
    g = np.random.default_rng(1).standard_normal(y.shape)
    y.backward(mg.tensor(g))
    z.backward(torch.tensor(g))
    for x, peer in zip(mine, peers, strict=True):
        np.testing.assert_allclose(x.grad.numpy(), peer.grad.numpy(), rtol=rtol, atol=1e-13)
