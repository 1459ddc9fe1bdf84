"""The words of an expression that belong to queries in brackets inside of it."""

from __future__ import annotations

from collections.abc import Sequence

_BEGINS = {"select", "with", "from", "values"}


def inside_queries(words: Sequence[str]) -> set[int]:
    """Return the places of the words that are inside of queries in brackets, of a text in lower case."""
    places, outer, depth = set[int](), 0, 0
    for place, word in enumerate(words):
        depth += word == "("
        if word == "(" and not outer and _BEGINS.intersection(words[place + 1 : place + 2]):
            outer = depth
        if outer:
            places.add(place)
        if word == ")":
            outer = 0 if outer == depth else outer
            depth -= 1
    return places
