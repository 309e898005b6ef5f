"""Text and HTML representations of a hierarchy: an indented list, truncated where it is long."""

from __future__ import annotations

from collections.abc import Hashable
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from structopt.hierarchy import Hierarchy

__all__ = ["hierarchy_html", "hierarchy_text"]

_MOST_LINES = 40


def hierarchy_text(hierarchy: Hierarchy, most: int = _MOST_LINES) -> str:
    """One line a node, indented below its first parent; further parents are named on the line.

    Examples
    --------
    >>> import structopt as so
    >>> h = so.Hierarchy([("animal", "cat"), ("animal", "dog"), ("pet", "cat")])
    >>> print(hierarchy_text(h))
    animal
      dog
      cat (also under pet)
    pet
    """
    lines: list[str] = []
    stack: list[tuple[Hashable, int]] = [(root, 0) for root in reversed(hierarchy.roots)]
    while stack and len(lines) < most:
        node, depth = stack.pop()
        parents = hierarchy.parents(node)
        others = f" (also under {', '.join(map(str, parents[1:]))})" if len(parents) > 1 else ""
        lines.append(f"{'  ' * depth}{node}{others}")
        own = [child for child in hierarchy.children(node) if hierarchy.parents(child)[0] == node]
        stack.extend((child, depth + 1) for child in reversed(own))
    if stack:
        lines.append(f"... and {len(hierarchy) - most} more")
    return "\n".join(lines)


def hierarchy_html(hierarchy: Hierarchy) -> str:
    """The facts and the list."""
    facts = escape(repr(hierarchy).strip("<>"))
    return f"<div><strong>{facts}</strong><pre>{escape(hierarchy_text(hierarchy))}</pre></div>"
