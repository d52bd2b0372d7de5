"""Conversion of a plot's SVG for embedding in a page: smaller, and in the colors of the page's
light or dark theme.

The page's content security policy forbids style attributes and style elements, so styles become
presentation attributes.
"""

from __future__ import annotations

import itertools
import re
from html import escape
from xml.etree import ElementTree

_COLORS = {
    "#111111": "currentColor",
    "#000000": "currentColor",
    "#ffffff": "var(--paper)",
    "#dddddd": "var(--line)",
    "#767676": "var(--grey)",
    "#b3261e": "var(--red)",
    "#1f5fa8": "var(--blue)",
}
_DROPPED_TAGS = {"metadata", "style", "title"}
_NUMBER = re.compile(r"-?\d+\.\d{2,}")
_LINK = re.compile(r"url\(#([^)]+)\)")


def inline_svg(svg: str, name: str, text: str) -> str:
    """Return the SVG element of a plot for embedding in a page.

    Parameters
    ----------
    svg : str
        SVG text from `album.Album.svg`.
    name : str
        Prefix of the element ids, unique in the page.
    text : str
        Alternative text.

    Returns
    -------
    str
        The SVG markup.
    """
    root = ElementTree.fromstring(svg.encode())
    box = root.get("viewBox", "0 0 1 1")
    linked = set(re.findall(r"(?:url\(#|href=\"#)([^)\"]+)", svg))
    ids = {old: f"{name}-{i}" for i, old in enumerate(sorted(linked))}
    width = float(box.split()[2])
    inner = "".join(_markup(child, ids) for child in root)
    return (
        f'<svg viewBox="{box}" width="{width * 4 / 3:.0f}" role="img" '
        f'aria-label="{escape(text)}">{inner}</svg>'
    )


def _markup(node: ElementTree.Element, ids: dict[str, str]) -> str:
    tag = node.tag.rpartition("}")[2] if isinstance(node.tag, str) else ""
    if not tag or tag in _DROPPED_TAGS:
        return ""
    attributes = _attributes(tag, node, ids)
    inner = "".join(_markup(child, ids) for child in node)
    if tag == "text":
        inner = escape(node.text or "", quote=False)
    if (tag == "g" and not attributes) or (tag == "defs" and not inner):
        return inner
    if tag == "g" and not inner:
        return ""
    style_value = "".join(f' {key}="{escape(value)}"' for key, value in attributes.items())
    return f"<{tag}{style_value}>{inner}</{tag}>" if inner else f"<{tag}{style_value}/>"


def _attributes(tag: str, node: ElementTree.Element, ids: dict[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in node.attrib.items():
        key = name.rpartition("}")[2]
        if key == "style":
            pairs = (part.split(":", 1) for part in value.split(";") if ":" in part)
            found |= {
                style.strip(): _theme_color(style_value.strip()) for style, style_value in pairs
            }
        elif key == "id":
            found |= {"id": ids[value]} if value in ids else {}
        elif key not in ("space", "version", "gid"):
            found[key] = _theme_color(value)
    found = {key: _LINK.sub(lambda m: f"url(#{ids[m[1]]})", value) for key, value in found.items()}
    if found.get("href", "").startswith("#"):
        found["href"] = f"#{ids[found['href'][1:]]}"
    for key in ("d", "x", "y", "transform", "points", "height", "width", "stroke-width"):
        if key in found:
            found[key] = (
                _NUMBER.sub(lambda m: f"{float(m.group()):.1f}".removesuffix(".0"), found[key])
                .replace("\n", "")
                .strip()
            )
    found.pop("font", None)
    if tag == "text":
        found = {
            key: value
            for key, value in found.items()
            if key != "font-family" and not (key == "transform" and "rotate(-0" in value)
        }
    return _without_defaults(tag, found)


def _without_defaults(tag: str, found: dict[str, str]) -> dict[str, str]:
    """Remove the attributes that the page's style sheet sets for all plots."""
    if "d" in found and not set(found["d"]) - set("MLz -.0123456789\n"):
        found["d"] = _relative_path(found["d"])
    if found.get("stroke") == "var(--line)" and tag == "path" and found.get("fill") == "none":
        return {"class": "grid", "d": found["d"]}
    if tag == "use":
        found = {key: value for key, value in found.items() if not key.startswith("stroke")}
    defaults = {"stroke-linejoin": "miter", "stroke-linecap": "square", "font-size": "9px"}
    return {key: value for key, value in found.items() if defaults.get(key) != value}


def _relative_path(path: str) -> str:
    """Return a path of straight lines, in tenths, with each point relative to the one before, which
    takes fewer bytes.

    Examples
    --------
    >>> _relative_path("M 10 20.5 L 11.2 20.5 L 11.2 18 z M 0 0 L 3 4")
    'M10 20.5l1.2 0 0-2.5zM0 0l3 4'
    """
    written = []
    for part in path.replace("z", "z ").split("M")[1:]:
        tenths = [round(10 * float(word)) for word in re.findall(r"-?[\d.]+", part)]
        points = list(zip(tenths[::2], tenths[1::2], strict=True))
        steps = [(x - a, y - b) for (a, b), (x, y) in itertools.pairwise(points)]
        places = [
            "".join(
                f"{'' if word < 0 and i else ' ' * i}{_format_tenths(word)}"
                for i, word in enumerate(pair)
            )
            for pair in (points[0], *steps)
        ]
        lines = "".join(
            place if place[0] == "-" or i == 0 else f" {place}"
            for i, place in enumerate(places[1:])
        )
        written.append(f"M{places[0]}{'l' + lines if lines else ''}{'z' if 'z' in part else ''}")
    return "".join(written)


def _format_tenths(value: int) -> str:
    """Return a number of tenths as a decimal, without the zeros that a path does not need."""
    return (
        f"{'-' * (value < 0)}{abs(value) // 10 or ''}"
        + (f".{abs(value) % 10}" if value % 10 else "")
    ) or "0"


def _theme_color(value: str) -> str:
    return _COLORS.get(value.lower(), value)
