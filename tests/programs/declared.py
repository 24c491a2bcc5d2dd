"""A step for each elementwise operation that no other step names: its declaration says all that is needed."""

import re
from pathlib import Path

from minigrad.op import Op, numpy_functions, registry
from minigrad.rules.elementwise import Activations, Arithmetic, Exponentials, Trigonometry

from .draft import Draft, Unfit, kind

OPERATORS = {"add", "sub", "mul", "div", "neg", "pow", "remainder"}
NAMED = {
    name
    for file in Path(__file__).parent.glob("*.py")
    for name in re.findall(r"\.(\w+)\(", file.read_text(encoding="utf-8"))
}
SMOOTH = {
    operation.name
    for family in (Arithmetic, Exponentials, Trigonometry, Activations)
    for operation in vars(family).values()
    if isinstance(operation, Op) and operation.rules
}
UNNAMED = sorted(SMOOTH - NAMED - OPERATORS)


@kind
def declared(d: Draft) -> None:
    """One of the smooth operations that are left, by its name as a method and NumPy's."""
    if not UNNAMED:
        raise Unfit
    name = d.choose(UNNAMED)
    a = d.operand()
    operands = [a] if len(registry[name].operands) == 1 else [a, d.partner(a)]
    own = [function.__name__ for function, meant in numpy_functions.items() if meant is registry[name]]
    function = f"np.{own[0]}(" if own else f"forward('{name}', "
    listed = ", ".join(operands)
    d.emit(f"mg.Tensor.{name}({listed})", f"{function}{listed})", operands, analytic=False)
