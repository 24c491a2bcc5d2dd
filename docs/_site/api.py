"""The pages of the API: which names stand on which page.  What is said of them is in their docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from types import ModuleType

import numpy as np

import minigrad as mg
import transformer
from minigrad import creation, dtypes, func, functional, optim, random, threads
from minigrad.op import Op
from transformer.__main__ import make_parser

TITLES = {
    "elementwise": "Elementwise",
    "piecewise": "Piecewise",
    "comparison": "Comparisons",
    "reduce": "Reductions",
    "linalg": "Products of matrices",
    "shape": "Shape",
    "indexing": "Indexing, sorting, searching",
    "": "Others",
}


def entries(names: Iterable[str], module: str, options: str = "") -> str:
    """Return the lines that have mkdocstrings put in the documentation of these names."""
    return "\n\n".join(f"::: {module}.{name}{options}" for name in names)


def operations() -> str:
    """Return the functions of minigrad by topic: by the module that an operation comes from."""
    names_of: dict[int, list[str]] = {}
    for name in functional.__all__:
        names_of.setdefault(id(getattr(mg, name)), []).append(name)
    topics: dict[str, dict[str, str]] = {topic: {} for topic in TITLES}
    for names in names_of.values():
        function = getattr(mg, names[0])
        source = function.forward if isinstance(function, Op) else function
        name = next((name for name in names if name == source.__name__.strip("_")), names[0])
        topic = source.__module__.rsplit(".", 1)[-1]
        others = ", ".join(f"`{other}`" for other in names if other != name)
        text = entries([name], "minigrad") + (f"\n\nAlso called {others}." if others else "")
        topics[topic if topic in topics else ""][name] = text
    parts = [
        "# Operations",
        "Each is a method of [Tensor](tensor.md) as well, where PyTorch has it. In a rule, `g` is the gradient "
        "that arrives, `out` the output.",
    ]
    for topic, texts in topics.items():
        parts += [f"## {TITLES[topic]}", *(texts[name] for name in sorted(texts))]
    return "\n\n".join(parts)


def options_page() -> str:
    """Return the help texts of the command line."""
    _, commands = make_parser()
    parts = ["# The command line", "`transformer COMMAND …`, or `python -m transformer COMMAND …`."]
    for name, parser in commands.items():
        parser.prog = f"transformer {name}"
        parts += [f"## transformer {name}", f"```text\n{parser.format_help()}```"]
    return "\n\n".join(parts) + "\n"


def classes_and_functions(module: object, names: Iterable[str]) -> list[str]:
    """Return those of the names that are classes or functions."""
    return [
        name for name in names if callable(getattr(module, name)) and not inspect.ismodule(getattr(module, name))
    ]


def defined_in(module: ModuleType) -> list[str]:
    """Return the public functions and classes that a module defines itself."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__ and callable(value)
    ]


def dtypes_and_numbers() -> str:
    """Return the names of the dtypes and constants, which have no docstrings."""
    names = [name for name in dtypes.__all__ if not callable(getattr(dtypes, name))]
    kinds = ", ".join(f"`mg.{name}`" for name in names if isinstance(getattr(dtypes, name), np.dtype))
    numbers = ", ".join(f"`mg.{name}`" for name in names if not isinstance(getattr(dtypes, name), np.dtype))
    return f"Dtypes are NumPy's: {kinds}, `mg.bool`. Constants: {numbers}."


def pages() -> dict[str, str]:
    """Return each page's place and its text."""
    options = ("inherited_members: true", "merge_init_into_class: false", "show_bases: false")
    inherited = "".join(["\n    options:", *(f"\n      {option}" for option in options)])
    modes = ["no_grad", "enable_grad", "set_grad_enabled", "is_grad_enabled", "inference_mode"]
    derivatives = ["backward", "grad", "Function", "FunctionCtx", "detect_anomaly", "keep_values"]
    checks = ["gradcheck", "gradgradcheck", "GradcheckError", "numeric_gradient"]
    layers = classes_and_functions(mg.nn, mg.nn.__all__)
    first = ["Parameter", "Sequential", "ModuleList", "ModuleDict"]
    losses = [name for name in layers if name.endswith("Loss")]
    others = sorted(set(layers) - {"Module", *first} - set(losses))
    functions = sorted(mg.nn.functional.__all__)
    optimizers = classes_and_functions(optim, optim.__all__)
    helpers = [name for name in dtypes.__all__ if inspect.isfunction(getattr(dtypes, name))]
    return {
        "api/index.md": INDEX,
        "api/tensor.md": f"# Tensor\n\n::: minigrad.tensor.Tensor{inherited}\n",
        "api/creation.md": "# Making tensors\n\n"
        + entries(creation.__all__, "minigrad.creation")
        + f"\n\n## Dtypes\n\n{dtypes_and_numbers()}\n\n"
        + entries(helpers, "minigrad")
        + "\n\n## Random numbers\n\n"
        + entries(random.__all__, "minigrad"),
        "api/operations.md": operations(),
        "api/autograd.md": "# Derivatives\n\n"
        + entries(derivatives, "minigrad.autograd")
        + "\n\n## Checking a rule\n\n"
        + entries(checks, "minigrad.autograd")
        + "\n\n## Recording or not\n\n"
        + entries(modes, "minigrad")
        + "\n\n## Derivatives of functions\n\n"
        + entries(func.__all__, "minigrad.func"),
        "api/nn.md": f"# Modules\n\n::: minigrad.nn.Module{inherited}\n\n"
        + entries(first, "minigrad.nn")
        + "\n\n## Layers\n\n"
        + entries(others, "minigrad.nn")
        + "\n\n## Losses\n\n"
        + entries(losses, "minigrad.nn"),
        "api/functional.md": "# nn.functional\n\n" + entries(functions, "minigrad.nn.functional"),
        "api/init.md": "# Initial values, and clipping\n\n## nn.init\n\n"
        + entries(defined_in(mg.nn.init), "minigrad.nn.init")
        + "\n\n## nn.utils\n\n"
        + entries(defined_in(mg.nn.utils), "minigrad.nn.utils"),
        "api/optim.md": "# Optimisers\n\n"
        + entries(optimizers, "minigrad.optim")
        + "\n\n## Schedules\n\n"
        + entries(defined_in(optim.lr_scheduler), "minigrad.optim.lr_scheduler"),
        "api/looking.md": "# Looking at it, saving it\n\n"
        + entries(["draw", "explain_backward", "drawing.Drawing"], "minigrad.draw")
        + "\n\n## Files\n\n"
        + entries(["save", "load"], "minigrad")
        + "\n\n## The machine\n\n"
        + entries([*threads.__all__, "keep_freed_memory"], "minigrad"),
        "api/transformer.md": "# The package transformer\n\n"
        + entries([*transformer.__all__, "tokenizer.Tokenizer"], "transformer"),
        "api/command-line.md": options_page(),
        "api/engine.md": "# Operations and the graph\n\nFor who adds an operation or reads the engine.\n\n"
        + entries(["op", "kernel", "Op"], "minigrad.op")
        + "\n\n"
        + entries(["Node", "backward_pass", "sum_to"], "minigrad.graph"),
    }


INDEX = """# The API

Names and meaning are PyTorch's; [what differs](../differences.md) is listed. All of it comes from the docstrings.

| page | what is on it |
|---|---|
| [Tensor](tensor.md) | the array that remembers how it was computed, with all its methods |
| [Making tensors](creation.md) | from numbers and arrays, dtypes, random numbers |
| [Operations](operations.md) | the functions of `minigrad`, each with its derivative |
| [Derivatives](autograd.md) | `autograd`, `no_grad`, `func`, rules of your own |
| [Modules](nn.md) | `nn`: modules, layers, losses |
| [nn.functional](functional.md) | the same as functions |
| [Initial values, and clipping](init.md) | `nn.init`, `nn.utils` |
| [Optimisers](optim.md) | `optim` and its schedules |
| [Looking at it, saving it](looking.md) | drawings, stories, files, threads |
| [transformer](transformer.md) | the model, its training and its voice, from Python |
| [The command line](command-line.md) | `transformer train` and its sisters |
| [Operations and the graph](engine.md) | the engine's own parts |
"""
