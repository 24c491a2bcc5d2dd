"""Fields of a dataclass that know their help and what they may hold: of these the command line makes options.

>>> @dataclasses.dataclass
... class Tea:
...     minutes: int = option(4, "how long it steeps", AT_LEAST_1)
...
...     def __post_init__(self):
...         check_fields(self)
>>> Tea(minutes=0)
Traceback (most recent call last):
ValueError: minutes must be at least 1, not 0
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

TYPES: dict[str, type] = {"int": int, "float": float, "bool": bool, "str": str}


@dataclass(frozen=True)
class Allowed:
    """Which values a field may have: in words, as a test, and if they are few, all of them."""

    says: str
    holds: Callable[[Any], bool]
    choices: tuple[str, ...] = ()


ANYTHING = Allowed("anything", lambda value: True)
AT_LEAST_0 = Allowed("at least 0", lambda value: 0 <= value < math.inf)
AT_LEAST_1 = Allowed("at least 1", lambda value: value >= 1)
ABOVE_0 = Allowed("a number above 0", lambda value: 0 < value < math.inf)
FRACTION = Allowed("at least 0 and below 1", lambda value: 0 <= value < 1)


def one_of(*choices: str) -> Allowed:
    """Return that a field may have these values."""
    return Allowed(f"one of {', '.join(choices)}", lambda value: value in choices, choices)


def option(default: Any, help: str, allowed: Allowed = ANYTHING) -> Any:
    """Declare a field with its default (``dataclasses.MISSING``: none), what it is, and what it may hold."""
    return dataclasses.field(default=default, metadata={"help": help, "allowed": allowed})


def check_fields(instance: Any) -> None:
    """Raise if a field of a dataclass holds what it may not; an int is allowed where a float is.

    Raises:
        ValueError: names the field, its type or what it may hold, and the value.
    """
    for field in dataclasses.fields(instance):
        value = getattr(instance, field.name)
        types = (int, float) if field.type == "float" else (TYPES[str(field.type)],)
        if not isinstance(value, types) or (isinstance(value, bool) and field.type != "bool"):
            raise ValueError(f"{field.name} must be of type {field.type}, not {value!r:.80}")
        allowed = field.metadata.get("allowed", ANYTHING)
        if not allowed.holds(value):
            raise ValueError(f"{field.name} must be {allowed.says}, not {value!r:.80}")
