"""The grammar of conditions: AND, OR, NOT, comparisons and the tests of SQL, over values that a subclass parses.

In the dialect `flink-cdc` a comparison with null is false, and its negation is true: Flink CDC keeps a row whose
status is null for `status <> 'paid'`, `status NOT IN ('paid')` and `NOT (status = 'paid')`. LIKE has a regular
expression there, which may match any part of the text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from penstock.schema_evolution.expressions.like_patterns import ESCAPABLE, ordinary_escaped
from penstock.schema_evolution.expressions.nodes import Call, Literal, Node, TokenReader

_COMPARISONS = {"=", "<>", "!=", "<", "<=", ">", ">="}
_REGEX = (
    "Flink CDC reads the pattern of LIKE as a regular expression, in which % is an ordinary character",
    "write  LIKE '^A.*'  for a regular expression, or  LIKE 'A%' ESCAPE '!'  for a pattern with % and _",
)
_TESTS = "NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM"


class ConditionParser(TokenReader, ABC):
    """The upper levels of precedence of an expression."""

    def expression(self) -> Node:
        node = self._and()
        while self.accept("or"):
            node = Call("or", (node, self._and()))
        return node

    def _and(self) -> Node:
        node = self._not()
        while self.accept("and"):
            node = Call("and", (node, self._not()))
        return node

    def _not(self) -> Node:
        return _negation(self._not()) if self.accept("not") else self._comparison()

    @abstractmethod
    def _sum(self) -> Node:
        """Parse a value, which a comparison may follow."""

    @abstractmethod
    def _list(self) -> tuple[Node, ...]:
        """Parse values up to the closing bracket."""

    def _comparison(self) -> Node:
        left = self._sum()
        if self.now.kind == "sign" and self.now.value in _COMPARISONS:
            left = self._compared(self.next().value, left, self._sum())
        if self.accept("is"):
            return self._is(left, negated=self.accept("not"))
        negated = self.accept("not")
        node = self._membership(left)
        if node is None:
            if negated:
                raise self.wrong("NOT must be followed by BETWEEN, IN, LIKE or RLIKE")
            return left
        return _negation(node) if negated else node

    def _compared(self, sign: str, left: Node, right: Node) -> Node:
        if sign in {"<>", "!="}:
            is_sql = self._dialect == "sql"
            return Call("<>", (left, right)) if is_sql else _negation(self._compared("=", left, right))
        return self._decided(Call(sign, (left, right)))

    def _decided(self, comparison: Node) -> Node:
        """Return the comparison, which is not null in Flink CDC."""
        return comparison if self._dialect == "sql" else _or_false(comparison)

    def _is(self, left: Node, *, negated: bool) -> Node:
        for truth in (True, False):
            if self.accept(str(truth).lower()):
                # IS TRUE and IS FALSE are never null.
                holds = _or_false(left if truth else _negation(left))
                return _negation(holds) if negated else holds
        if self.accept("distinct"):
            self.need("from")
            differs = _differs(left, self._sum())
            return _negation(differs) if negated else differs
        if not (self.accept("null") or self.accept("unknown")):
            raise self.wrong(f"IS must be followed by {_TESTS}")
        return Call("is not null" if negated else "is null", (left,))

    def _membership(self, left: Node) -> Node | None:
        if self.accept("between"):
            low = self._sum()
            self.need("and")
            return Call("and", (self._compared(">=", left, low), self._compared("<=", left, self._sum())))
        if self.accept("in"):
            self.need("(")
            return self._decided(Call("in", (left, *self._list())))
        if self.accept("rlike"):
            return Call("regexp_like", (left, self._sum()))
        return self._like(left) if self.accept("like") else None

    def _like(self, left: Node) -> Node:
        pattern = self._sum()
        if self.accept("escape"):
            return Call("like", (left, Literal(self._escaped(pattern, self._sum()))))
        if self._dialect == "sql":
            return Call("like", (left, pattern))
        if isinstance(pattern, Literal) and "%" in str(pattern.value):
            raise self.wrong(*_REGEX)
        return Call("regexp_like", (left, pattern))

    def _escaped(self, pattern: Node, escape: Node) -> str:
        """Return a pattern of LIKE with another escape character as one with backslashes."""
        match pattern, escape:
            case Literal(str(text)), Literal(str(letter)) if len(letter) == 1:
                return "".join(_with_backslashes(text, letter))
        raise self.wrong("LIKE ... ESCAPE needs a constant pattern and one character", "LIKE '5!%' ESCAPE '!'")


def _with_backslashes(pattern: str, escape: str) -> Iterator[str]:
    """Yield the characters of a pattern of LIKE, in which a backslash takes the place of the escape character."""
    letters = iter(pattern)
    for letter in letters:
        if letter != escape:
            yield letter.replace("\\", "\\\\")
            continue
        escaped = next(letters, "")
        if escaped not in {"%", "_", escape, ""}:
            raise ordinary_escaped(pattern, escaped)
        yield f"\\{escaped}" if escaped in ESCAPABLE else escaped


def _negation(node: Node) -> Node:
    return Call("not", (node,))


def _or_false(node: Node) -> Node:
    return Call("coalesce", (node, Literal(value=False)))


def _differs(left: Node, right: Node) -> Node:
    """Return whether two values differ, where two nulls are equal, and null differs from every value."""
    nulls = Call("<>", (Call("is null", (left,)), Call("is null", (right,))))
    return Call("or", (nulls, _or_false(Call("<>", (left, right)))))
