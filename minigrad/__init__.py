"""minigrad: reverse-mode automatic differentiation on NumPy arrays, under PyTorch's names.

>>> import minigrad as mg
>>> x = mg.tensor([0.5, -1.0], requires_grad=True)
>>> (x.exp() * x).sum().backward()
>>> x.grad
tensor([2.4730818, 0.       ])
"""

from minigrad import autograd, dtypes
from minigrad.creation import (
    arange,
    as_tensor,
    empty,
    empty_like,
    eye,
    from_numpy,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    rand_like,
    randn_like,
    tensor,
    zeros,
    zeros_like,
)
from minigrad.dtypes import (
    double,
    float16,
    float32,
    float64,
    get_default_dtype,
    half,
    int8,
    int16,
    int32,
    int64,
    long,
    set_default_dtype,
    short,
    uint8,
)
from minigrad.functional import *  # noqa: F403
from minigrad.graph import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from minigrad.random import (
    Generator,
    bernoulli,
    get_rng_state,
    manual_seed,
    multinomial,
    normal,
    rand,
    randint,
    randn,
    randperm,
    set_rng_state,
)
from minigrad.tensor import Tensor

bool = dtypes.bool_
float = dtypes.float32
int = dtypes.int32

__version__ = "0.1.0"
