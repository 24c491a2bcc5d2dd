"""Programs as they are written for PyTorch, run on both engines with nothing but the import changed.

They learn on either, and as their initial weights are the same, the losses agree over all steps.
"""

import functools
import inspect

import numpy as np
import pytest
from pytorch_programs import PROGRAMS, names, smoothing

import minigrad

pytestmark = pytest.mark.usefixtures("torch_in_one_thread")

ENGINES = ["minigrad", "torch"]


def engine(name):
    """Return the module; skip without PyTorch."""
    if name == "minigrad":
        return minigrad
    return pytest.importorskip("torch", reason="PyTorch is not installed: pip install minigrad[torch]")


@functools.cache
def losses_of(program, name):
    """Return what a program returns on one engine."""
    return program(engine(name))


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_runs_to_its_end_and_learns(program, name):
    """It runs to its end, and it learns."""
    losses = losses_of(program, name)
    first, last = (0, -2) if program is smoothing else (0, len(losses) - (4 if program is names else 1))
    assert np.isfinite(losses).all()
    assert losses[last] < losses[first]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_losses_agree(program):
    """Every loss along the way is the same on both engines, to 10⁻⁵."""
    np.testing.assert_allclose(losses_of(program, "minigrad"), losses_of(program, "torch"), rtol=1e-5, atol=1e-6)


def test_programs_name_no_engine():
    """What they call is ``torch``, whichever it is: nothing in them asks which of the two."""
    for program in PROGRAMS:
        assert "minigrad" not in inspect.getsource(program)
