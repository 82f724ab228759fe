"""The text of XML elements: inline markup, formulas in MathML, and blocks, which are separated by spaces."""

from __future__ import annotations

import re
from typing import Any

from rerank_plugin.text.markup import BLOCKS, superscript


def text_of(element: Any) -> str:
    """The text of an element and its inline markup, with single spaces: ``CO<sub>2</sub>`` becomes CO2."""
    return " ".join((_inline(element) if len(element) else element.text or "").split())


def _inline(element: Any) -> str:
    text = element.text or ""
    for child in element:
        if isinstance(child.tag, str):  # otherwise an unexpanded entity
            name = _local_name(child)
            if name == "math":
                text += f" {_math(child)} "
            elif name == "sup":
                text += superscript(text, _inline(child))  # 10^6
            elif name in BLOCKS:
                text += f" {_inline(child)} "
            elif name != "tex-math":  # which repeats a formula
                text += _inline(child)
        text += child.tail or ""
    return text


def _math(element: Any) -> str:
    """MathML as text: spaces between parts (``p < 0.05``), no space in indices and powers, a slash in fractions."""
    name = _local_name(element)
    if not len(element):
        return " ".join((element.text or "").translate(_INVISIBLE).split())
    # An annotation repeats the formula as TeX.
    children = (child for child in element if isinstance(child.tag, str) and "annotation" not in _local_name(child))
    parts = [part for part in map(_math, children) if part]
    if name in ("msub", "msup", "msubsup") and parts:
        base, *scripts = ("".join(part.split()) for part in parts)
        if name == "msup" and scripts:
            return base + superscript(base, scripts[0])
        return base + "".join(scripts)
    return ("/" if name == "mfrac" else " ").join(parts)


_INVISIBLE = dict.fromkeys(range(0x2061, 0x2065))  # MathML's invisible operators


def _local_name(element: Any) -> str:
    return re.split("[}:]", element.tag)[-1]
