"""minigrad: reverse-mode automatic differentiation on NumPy arrays, under PyTorch's names.

>>> import minigrad as mg
>>> x = mg.tensor([0.5, -1.0], requires_grad=True)
>>> (x.exp() * x).sum().backward()
>>> x.grad
tensor([2.4730818, 0.       ])
"""

from minigrad import autograd as autograd
from minigrad import backends as backends
from minigrad import cuda as cuda
from minigrad import dtypes as _dtypes
from minigrad import func as func
from minigrad import nn as nn
from minigrad import optim as optim
from minigrad.creation import *
from minigrad.devices import device as device
from minigrad.draw import draw as draw
from minigrad.draw import explain_backward as explain_backward
from minigrad.dtypes import *
from minigrad.functional import *
from minigrad.grad_mode import *
from minigrad.memory import keep_freed_memory as keep_freed_memory
from minigrad.random import *
from minigrad.serialization import load as load
from minigrad.serialization import save as save
from minigrad.tensor import Tensor as Tensor
from minigrad.threads import *

bool = _dtypes.bool_
float = _dtypes.float32
int = _dtypes.int32

__version__ = "0.1.0"
