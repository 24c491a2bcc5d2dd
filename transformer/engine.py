"""The model on another engine: its source as it is, with PyTorch imported in minigrad's place.

minigrad's names are PyTorch's, so the files that compute need no change but in their imports.  Whoever outgrows a
laptop goes on with the same model, and with what it has learned, on GPUs and on many machines.
"""

from __future__ import annotations

import importlib
import re
import sys
from importlib import resources
from types import ModuleType

FILES = ("capture", "cache", "embedding", "attention", "block", "model")
"""The modules that compute, each after those that it imports.  The config is the same on every engine."""

IMPORT = re.compile(rf"^(from|import) (?:(minigrad)|transformer\.({'|'.join(FILES)}))\b", re.MULTILINE)


def model_on(engine: str) -> ModuleType:
    """Return :mod:`transformer.model`, made from its source with a package ``engine`` in minigrad's place.

    The ``Transformer`` in ``model_on("torch")`` is a ``torch.nn.Module``, with the same names of parameters, the
    same methods and the same results.  A second call returns the same module.

    Raises:
        ImportError: there is no such package, or it lacks what the model's files import.
    """
    importlib.import_module(engine)  # if it is not there, the complaint is of it
    package = f"{__package__}.on_{engine}"
    if f"{package}.model" in sys.modules:
        return sys.modules[f"{package}.model"]
    modules = {file: ModuleType(f"{package}.{file}") for file in FILES}
    sys.modules.update({module.__name__: module for module in modules.values()})
    try:
        for file, module in modules.items():
            path = resources.files(__package__).joinpath(f"{file}.py")
            module.__file__ = str(path)
            source = IMPORT.sub(
                lambda found: f"{found[1]} {engine if found[2] else f'{package}.{found[3]}'}",
                path.read_text(encoding="utf-8"),
            )
            exec(compile(source, module.__file__, "exec"), vars(module))
    except BaseException:
        for module in modules.values():
            del sys.modules[module.__name__]
        raise
    return modules["model"]
