"""What NETWORK accepts: a family with options, `resnet:weight_std=1.2,scale=depth^-0.5`, or `module:attribute`."""

from __future__ import annotations

import importlib
import re
import sys
from math import inf, log2
from pathlib import Path
from typing import Any

from deeplimits.architecture.dense import BlockDiagonal, Gaussian, LowRank, Orthogonal, Sparse
from deeplimits.architecture.layer import DEPTH, WIDTH, Layer
from deeplimits.architecture.scale import Decreasing
from deeplimits.errors import DescriptionError, InputError, nearest

LAWS = {"gaussian": Gaussian, "orthogonal": Orthogonal, "low-rank": LowRank, "sparse": Sparse, "block": BlockDiagonal}


def network(spec: str, activation: str | None = None) -> Any:
    """Read a network from the command line.

    Args:
        spec: a family's name, `name:option=value,...`, or `module:attribute` of a description.
        activation: the activation of a named family, unless the spec names one.

    Raises:
        DescriptionError: an unknown family, option, activation or module.
    """
    from deeplimits.architecture import zoo

    name, _, rest = spec.partition(":")
    if rest and "=" not in rest:
        return _imported(name, rest)
    options = _options(rest)
    if name.lower().replace("_", "-") == "shaped-mlp":
        return _shaped(options)
    if activation is not None:
        options.setdefault("activation", activation)
    return zoo.network(name, **options)


def numbers(option: str, text: str, *, infinite: bool = False) -> list[Any]:
    """Read a comma-separated list of whole numbers, `inf` among them where allowed.

    Raises:
        InputError: something else stands in the list.
    """
    found: list[Any] = []
    for part in (piece.strip() for piece in text.split(",")):
        if infinite and part.lower() in ("inf", "infinity", "∞"):
            found.append(inf)
        elif part.isdigit() and int(part) >= 1:
            found.append(int(part))
        else:
            also = " or inf" if infinite else ""
            raise InputError(
                option, f"{part!r} is not a whole number of at least 1{also}", f"write e.g. {option} 64,128,256"
            )
    return found


def rates(option: str, text: str) -> list[float]:
    """Read learning rates: a list, or a range that doubles from one end to the other.

    Raises:
        InputError: something else stands there.

    Example:
        >>> rates("--lr", "2^-3..2^-1"), rates("--lr", "1e-3,0.01")
        ([0.125, 0.25, 0.5], [0.001, 0.01])
    """
    first, span, last = text.partition("..")
    if not span:
        return [_rate(option, part) for part in text.split(",")]
    low, high = _rate(option, first), _rate(option, last)
    if high < low:
        raise InputError(option, f"{text!r} falls", "write the smaller learning rate first")
    return [low * 2**n for n in range(int(log2(high / low) + 1e-9) + 1)]


def _rate(option: str, text: str) -> float:
    base, power, exponent = text.strip().replace("**", "^").partition("^")
    try:
        found = float(base) ** float(exponent) if power else float(base)
    except (ValueError, OverflowError, ZeroDivisionError):
        found = 0.0
    if isinstance(found, complex) or not 0 < found < inf:
        fix = f"write e.g. {option} 2^-12..2^-4 or {option} 0.001,0.003,0.01"
        raise InputError(option, f"{text!r} is not a learning rate above zero", fix)
    return found


def names(option: str, text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """Read a comma-separated list of known names.

    Raises:
        InputError: an unknown name.
    """
    found = tuple(piece.strip().lower() for piece in text.split(","))
    for name in found:
        if name not in known:
            raise InputError(option, f"{name!r} is not known", nearest(name, known))
    return found


def _imported(module: str, attribute: str) -> Layer:
    sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        fix = "name a module that can be imported from here and a description in it, or write options as name=value"
        raise DescriptionError("NETWORK", f"{module}:{attribute} cannot be imported ({error})", fix) from None
    finally:
        sys.path.pop(0)
    if not isinstance(found, Layer) and callable(found):
        found = found()
    if not isinstance(found, Layer):
        raise DescriptionError(
            "NETWORK", f"{module}:{attribute} is a {type(found).__name__}", "name a network description"
        )
    return found


def _shaped(options: dict[str, Any]) -> Layer:
    """The perceptron whose ReLU is shaped by the width; its activation is its own."""
    from dataclasses import fields

    from deeplimits.architecture.shaped import ShapedMlp

    known = [field.name for field in fields(ShapedMlp)]
    for option in options:
        if option not in known:
            raise DescriptionError("network('shaped-mlp')", f"no option {option!r}", nearest(option, known))
    return ShapedMlp(**options)


def _options(text: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for pair in filter(None, text.split(",")):
        name, equals, value = pair.partition("=")
        if not equals:
            raise DescriptionError(
                "NETWORK", f"{pair!r} is not an option", "write options as name=value, e.g. weight_std=1.2"
            )
        options[name.strip().replace("-", "_")] = _value(name.strip(), value.strip())
    return options


def _value(name: str, text: str) -> Any:
    if name == "scale":
        return _scale(text)
    if name == "weights":
        return _law(text)
    number = _number(text)
    if number is not None:
        return number
    return None if text.lower() == "none" else text


def _number(text: str) -> int | float | None:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None


def _scale(text: str) -> Any:
    number = _number(text)
    if number is not None:
        return number
    match = re.fullmatch(r"(?:([\d.eE+-]+)\*)?(depth|l)(?:\*\*|\^)(-?[\d.]+)", text, flags=re.IGNORECASE)
    if match is None:
        fix = "write a number, depth^-0.5, 0.3*depth^-0.5, or l^-1 for a sequence that decreases with the layer"
        raise DescriptionError("scale", f"{text!r} is not a branch scale", fix)
    factor, exponent = float(match[1] or 1), float(match[3])
    if match[2].lower() == "l":
        return Decreasing(-exponent, factor)
    return factor * DEPTH**exponent


def _law(text: str) -> Any:
    match = re.fullmatch(r"([a-z_-]+)(?:\(([\d.]+)\))?", text.lower())
    name = match[1].replace("_", "-") if match else text
    if match is None or name not in LAWS:
        raise DescriptionError("weights", f"{text!r} is not a law of weights", nearest(name, LAWS))
    if (match[2] is None) != (name in ("gaussian", "orthogonal")):
        raise DescriptionError(
            "weights", f"{text!r} has the wrong number of sizes", "write orthogonal or e.g. sparse(0.1)"
        )
    if match[2] is None:
        return LAWS[name]()
    size = float(match[2])
    return LAWS[name](size if name == "sparse" else size * WIDTH)
