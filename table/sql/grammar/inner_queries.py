"""The words of an expression that belong to queries in brackets inside of it."""

from __future__ import annotations

from collections.abc import Sequence

_BEGINS = {"select", "with", "from", "values"}


def inside_queries(words: Sequence[str]) -> set[int]:
    """Return the places of the words that are inside of queries in brackets, of a text in lower case.

    Queries without tables are left out: their names are those of the expression around them.
    """
    places, outer, depth, begun = set[int](), 0, 0, 0
    for place, word in enumerate(words):
        depth += word == "("
        if word == "(" and not outer and _BEGINS.intersection(words[place + 1 : place + 2]):
            outer, begun = depth, place
        if word == ")":
            if outer == depth:
                outer = 0
                if "from" in words[begun:place]:
                    places.update(range(begun, place + 1))
            depth -= 1
    return places
