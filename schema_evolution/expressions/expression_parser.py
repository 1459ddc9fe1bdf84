"""The grammar of SQL expressions: literals, columns, arithmetic operators, calls, CASE and CAST."""

from __future__ import annotations

import re

from penstock.errors import did_you_mean
from penstock.schema_evolution.expressions.condition_parser import ConditionParser
from penstock.schema_evolution.expressions.functions import FUNCTIONS, REFUSED
from penstock.schema_evolution.expressions.nodes import (
    Call,
    Case,
    Cast,
    ColumnReference,
    Item,
    Literal,
    Node,
    Token,
    unquoted,
)
from penstock.schema_evolution.expressions.time_functions import UNITS
from penstock.table.values.types import parse_type

_BARE = {
    "current_timestamp",
    "current_date",
    "current_time",
    "localtimestamp",
    "localtime",
}  # functions that may also be written without brackets
_LEAST_BIGINT, _MOST_BIGINT = -(2**63), 2**63 - 1
_CASTS = {"cast", "try_cast"}
_FROM_FOR = {"substring", "substr"}
_JAVA_BLANKS = "".join(map(chr, range(33)))  # what Java's trim, and so Flink CDC's, removes
_UNIT_FIRST = {"timestampdiff", "timestamp_diff", "timestampadd"}
_ENDS = {"both": "trim", "leading": "ltrim", "trailing": "rtrim"}
_RESERVED = {"and", "or", "not", "as", "then", "else", "end", "when", "between", "in", "like", "is", "from", "where"}


class ExpressionParser(ConditionParser):
    """A recursive descent parser with a method per level of precedence; conditions are those of its base."""

    def item(self) -> Item:
        if self.accept("*"):
            return Item("*")
        value = self.expression()
        if self.accept("as"):
            return Item(self.name(), value)
        if self.now.kind == "quoted" or (self.now.kind == "word" and self.now.value not in _RESERVED):
            return Item(self.name(), value)  # `upper(name) name` is allowed, as in SQL
        if isinstance(value, ColumnReference):
            return Item(value.name, value)
        raise self.wrong("an expression in a projection needs a name", "write it as  expression AS name")

    def _sum(self) -> Node:
        node = self._product()
        while (sign := self.now.value) in {"+", "-", "||"} and self.now.kind == "sign":
            self.next()
            right = self._product()
            node = Call("concat", (node, right)) if sign == "||" else Call(sign, (node, right))
        return node

    def _product(self) -> Node:
        node = self._unary()
        while (sign := self.now.value) in {"*", "/", "%"} and self.now.kind == "sign":
            self.next()
            is_whole = sign == "/" and self._dialect == "flink-cdc"  # there an integer divided by one is an integer
            node = Call("whole /" if is_whole else sign, (node, self._unary()))
        return node

    def _unary(self) -> Node:
        if self.accept("-"):
            value = self._number(self.next().value, sign=-1) if self.now.kind == "number" else self._unary()
            if isinstance(value, Literal) and isinstance(value.value, int | float):
                return Literal(-value.value)
            return Call("-", (Literal(0), value))
        return self._unary() if self.accept("+") else self._primary()

    def _number(self, text: str, sign: int = 1) -> Literal:
        """Return a number without its sign, which decides whether an integer fits a BIGINT."""
        if not text.isdecimal():
            return Literal(float(text))
        value = int(text)
        if not _LEAST_BIGINT <= sign * value <= _MOST_BIGINT:
            raise self.wrong(f"{text} is not a BIGINT", f"write CAST('{text}' AS DECIMAL({len(text)}, 0))")
        return Literal(value)

    def _primary(self) -> Node:
        token = self.next()
        match token.kind:
            case "number":
                return self._number(token.value)
            case "text":
                return Literal(unquoted(token.written))
            case "quoted":
                return self._column(unquoted(token.written))
            case "word":
                return self._word(token)
        if token.value == "(":
            node = self.expression()
            self.need(")")
            return node
        raise self.wrong(f"{token.written!r} is unexpected" if token.kind != "end" else "it is incomplete")

    def _word(self, token: Token) -> Node:
        if token.value in {"true", "false"}:
            return Literal(token.value == "true")
        if token.value == "null":
            return Literal(None)
        if token.value == "case":
            return self._case()
        if token.value in _RESERVED:
            raise self.wrong(f"{token.written!r} is unexpected", "if it is a column name, quote it with `backticks`")
        if self.accept("("):
            return self._cast(tries=token.value == "try_cast") if token.value in _CASTS else self._call(token)
        if token.value in _BARE:
            return Call(token.value, ())
        return self._column(token.written)

    def _column(self, name: str) -> Node:
        """Return the column; in `table.column` the table is ignored, since there is only one."""
        return ColumnReference(self.name()) if self.accept(".") else ColumnReference(name)

    def _call(self, token: Token) -> Node:
        if token.value in REFUSED:
            raise self.wrong(*REFUSED[token.value])
        if token.value == "trim":
            return self._trim()
        function = FUNCTIONS.get(token.value)
        arguments = () if self.accept(")") else self._arguments(token.value)
        if function is None:
            hint = did_you_mean(token.value, FUNCTIONS, f"the functions are {', '.join(sorted(FUNCTIONS))}")
            raise self.wrong(f"function {token.written} does not exist", hint)
        if not function.least <= len(arguments) <= function.most:
            raise self.wrong(f"{token.written} is used as {function.form}")
        return Call(token.value, arguments)

    def _trim(self) -> Node:
        """Parse the arguments of trim.

        SQL's own forms are accepted too: trim(both 'x' from t), trim(leading from t), trim('x' from t).
        """
        word = self.now.value if self.now.kind == "word" and self.now.value in _ENDS else None
        if word is not None:
            self.next()
        characters: Node = Literal(_JAVA_BLANKS if self._dialect == "flink-cdc" else " ")
        if word is not None and self.accept("from"):
            value = self.expression()
        else:
            value = self.expression()
            if self.accept("from"):
                characters, value = value, self.expression()
            elif word is not None:
                raise self.wrong("'from' is missing", f"write  trim({word} ' ' from x)")
            elif self.accept(","):
                characters = self.expression()
        self.need(")")
        return Call(_ENDS[word or "both"], (value, characters))

    def _arguments(self, name: str) -> tuple[Node, ...]:
        """Parse arguments up to the closing bracket.

        They are separated by commas or in SQL's older forms: substring(x from 2 for 3), timestampdiff(day, a, b).
        """
        if name in _UNIT_FIRST and self.now.kind == "word" and self.now.value in UNITS:
            unit = Literal(self.next().value)
            self.need(",")
            return (unit, *self._list())
        if name not in _FROM_FOR:
            return self._list()
        found = [self.expression()]
        separators = [","] if self.now.value == "," else ["from", "for"]
        # Up to two more arguments: each after a comma, or one after FROM and one after FOR.
        found += [self.expression() for separator in separators * (2 // len(separators)) if self.accept(separator)]
        self.need(")")
        return tuple(found)

    def _list(self) -> tuple[Node, ...]:
        found = [self.expression()]
        while self.accept(","):
            found.append(self.expression())
        self.need(")")
        return tuple(found)

    def _cast(self, *, tries: bool) -> Node:
        value = self.expression()
        self.need("as")
        # The type is parsed from the text up to the closing bracket of CAST, since types may have brackets too.
        begin, depth = self.now.place, 0
        while self.now.kind != "end" and not (depth == 0 and self.now.value == ")"):
            depth += (self.now.value == "(") - (self.now.value == ")")
            self.next()
        text = self._text[begin : self.now.place]
        self.need(")")
        # Without a length, standard SQL would make it one character long, which is never intended.
        text = re.sub(r"(?i)^\s*varchar\b(?!\s*\()", "STRING", text).strip()
        return Cast(value, parse_type(text), tries)

    def _case(self) -> Node:
        subject = None if self.now.value == "when" else self.expression()
        branches: list[tuple[Node, Node]] = []
        while self.accept("when"):
            wanted = [self.expression()]
            while subject is not None and self.accept(","):  # CASE x WHEN 1, 2 THEN
                wanted.append(self.expression())
            self.need("then")
            condition = wanted[0] if subject is None else Call("in", (subject, *wanted))
            branches.append((condition, self.expression()))
        default = self.expression() if self.accept("else") else Literal(None)
        self.need("end")
        if not branches:
            raise self.wrong("CASE without WHEN")
        return Case(tuple(branches), default)
