"""Operations of one's own, and what anomaly mode says when one goes wrong."""

import gc
import weakref
from pathlib import Path

import numpy as np
import pytest
from tensors import leaf

import minigrad as mg
import minigrad.kernels.attention
import minigrad.kernels.cross_entropy
import minigrad.kernels.linear
import minigrad.special
from minigrad.autograd import Function, detect_anomaly, gradcheck, gradgradcheck


class Scale(Function):
    """x · s and e^x: two outputs, a number among the arguments, an output saved."""

    @staticmethod
    def forward(ctx, x, s, power):
        out = x.exp()
        ctx.save_for_backward(x, s, out)
        ctx.power = power
        return x * s**power, out

    @staticmethod
    def backward(ctx, g, h):
        x, s, out = ctx.saved_tensors
        return g * s**ctx.power + h * out, (g * x * ctx.power * s ** (ctx.power - 1)).sum(), None


def inputs():
    return mg.tensor([0.5, -1.0], dtype=mg.float64, requires_grad=True), mg.tensor(
        1.5, dtype=mg.float64, requires_grad=True
    )


def test_a_function_of_ones_own_at_both_orders():
    function = lambda x, s: Scale.apply(x, s, 3)
    assert gradcheck(function, inputs())
    assert gradgradcheck(function, inputs())


def test_the_new_style_with_setup_context():
    class Square(Function):
        @staticmethod
        def forward(x):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * x * g

    assert gradgradcheck(Square.apply, inputs()[0])


def test_an_output_that_is_marked_carries_no_gradient():
    class WithSign(Function):
        @staticmethod
        def forward(ctx, x):
            sign = x.sign()
            ctx.mark_non_differentiable(sign)
            ctx.save_for_backward(sign)
            return x.abs(), sign

        @staticmethod
        def backward(ctx, g, unused):
            (sign,) = ctx.saved_tensors
            return g * sign

    x, _ = inputs()
    size, sign = WithSign.apply(x)
    assert (size.requires_grad, sign.requires_grad, sign.grad_fn) == (True, False, None)
    (size * sign).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_an_output_that_is_not_used_has_gradient_zero():
    x, s = inputs()
    first, _ = Scale.apply(x, s, 1)
    (first * mg.tensor([1.0, -2.0])).sum().backward()
    assert x.grad.tolist() == [1.5, -3.0]


def test_nothing_is_kept_without_a_gradient_and_no_cycle_with_one():
    x, s = inputs()
    assert not Scale.apply(x.detach(), s.detach(), 1)[0].requires_grad
    with mg.no_grad():
        assert not Scale.apply(x, s, 1)[0].requires_grad
    gc.disable()
    try:
        _, out = Scale.apply(x, s, 1)
        gone = weakref.ref(out)
        del out, _
        assert gone() is None, "a saved output must not keep itself alive"
    finally:
        gc.enable()


def test_a_saved_tensor_that_changes_is_noticed():
    x, s = inputs()
    y = x * 1
    first, _ = Scale.apply(y, s, 1)
    y.mul_(2)
    with pytest.raises(RuntimeError, match=r"Scale.*modified in place"):
        first.sum().backward()


def test_what_is_saved_may_be_none_an_output_or_have_been_written_before():
    """Only a write after the call counts, recorded or not; and ``ctx`` may be asked outside of backward too."""
    kept = []

    class Exponential(Function):
        @staticmethod
        def forward(ctx, x, bias):
            kept.append(ctx)
            out = x * 1
            out.exp_()
            ctx.save_for_backward(bias, out, x)
            return out

        @staticmethod
        def backward(ctx, g):
            bias, out, _ = ctx.saved_tensors
            assert bias is None
            return g * out, None

    x, _ = inputs()
    y = x * 1
    y.mul_(2)
    with mg.no_grad():
        y.add_(1)
    z = Exponential.apply(y, None)
    z.sum().backward(retain_graph=True)
    assert x.grad.tolist() == (2 * z).tolist()
    bias, out, saved = kept[0].saved_tensors
    assert bias is None
    assert (out.tolist(), out.requires_grad) == (z.tolist(), False)
    assert saved is y
    with mg.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match=r"modified in place since \(version 3, saved at version 2\)"):
        z.sum().backward()


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        (lambda g: (g, g), r"2 gradients.*1 argument"),
        (lambda g: g[:1], r"shape \(1,\)"),
        (lambda g: g[:1].reshape(1, 1, 1).expand(3, 1, 1).sum(0).reshape(1, 1).expand(1, 3), r"shape \(1, 3\)"),
    ],
)
def test_a_backward_that_returns_nonsense(returned, says):
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return returned(g)

    x, _ = inputs()
    with pytest.raises(RuntimeError, match=says):
        Wrong.apply(x).sum().backward()


def test_a_backward_may_return_more_than_is_needed():
    """None for arguments that forward doesn't have, and a gradient of a shape to which the argument broadcasts."""

    class Product(Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return g * y, g * x, None, None

    x, s = inputs()
    assert gradcheck(Product.apply, (x, s))
    assert gradgradcheck(Product.apply, (x, s.reshape(1)))


def test_a_mistake_in_the_rule_is_caught_and_explained():
    class Off(Function):
        @staticmethod
        def forward(ctx, x):
            return x**2

        @staticmethod
        def backward(ctx, g):
            return g * 999

    x, _ = inputs()
    with pytest.raises(RuntimeError, match=r"at \(0,\) the rule gives .*finite differences give"):
        gradcheck(Off.apply, x)


# --- anomaly mode -----------------------------------------------------------------------------------


def test_the_trap_of_where_is_named_with_the_users_line():
    x = mg.tensor([4.0, 0.0], requires_grad=True)
    y = mg.where(x > 0, x.sqrt(), 0).sum()
    y.backward()
    assert np.isnan(x.grad.numpy()[1]), "this is the trap"
    with (
        pytest.raises(RuntimeError, match=r"sqrt.*nan at \(1,\).*test_extend\.py.*MARK.*where") as caught,
        detect_anomaly(),
    ):
        mg.where(x > 0, x.sqrt(), 0).sum().backward()  # MARK
    assert "\n" not in str(caught.value)
    with detect_anomaly():
        mg.where(x > 0, mg.where(x > 0, x, 1).sqrt(), 0).sum().backward()


def test_of_a_rule_that_calls_operations_the_users_line_is_named():
    """To differentiate a derivative, a rule runs on tensors: on behalf of who asked for the derivative."""
    x = mg.tensor([0.0], requires_grad=True)
    with pytest.raises(RuntimeError, match=r"div gives inf at \(0,\).*test_extend\.py.*MARK"), detect_anomaly():
        mg.autograd.grad(x.sqrt(), x, create_graph=True)  # MARK


def test_a_file_whose_name_begins_as_the_packages_is_the_users():
    notes = Path(mg.__file__).parent.with_name("minigrad_notes.py")
    with pytest.raises(RuntimeError, match=r"log gives nan.*minigrad_notes\.py:1"), detect_anomaly():
        exec(compile("x.log()", str(notes), "exec"), {"x": mg.tensor([-1.0])})


def test_a_forward_value_is_blamed_on_the_operation_where_it_appears():
    x = mg.tensor([1.0, -1.0], requires_grad=True)
    with pytest.raises(RuntimeError, match=r"log gives nan at \(1,\)"), detect_anomaly():
        x.log() * 2
    with detect_anomaly():  # an infinity that was put in on purpose is nobody's fault
        x.masked_fill(x > 0, -np.inf).softmax(0).sum().backward()
    with detect_anomaly(check_nan=False):
        x.log()


def test_a_write_behind_the_engines_back_is_noticed():
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    with detect_anomaly():
        y = x.exp()
        y.detach().numpy()[0] = 5
        with pytest.raises(RuntimeError, match=r"shape \(2,\).*exp had saved.*behind"):
            y.sum().backward()


def test_the_mode_ends_with_its_block():
    x = mg.tensor([0.0], requires_grad=True)
    with pytest.raises(ZeroDivisionError), detect_anomaly():
        raise ZeroDivisionError
    assert x.log().item() == -np.inf


def test_a_backward_of_ones_own_may_return_none():
    """For an input that wants a gradient, but has none: nothing arrives there."""

    class First(mg.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2, None

    x, y = leaf(1.0), leaf(1.0)
    First.apply(x, y).backward()
    assert x.grad.item() == 2.0
    assert y.grad is None
