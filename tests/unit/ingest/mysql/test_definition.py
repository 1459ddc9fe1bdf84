from __future__ import annotations

import pytest

from penstock.ingest.mysql.definition import MySqlType, parse_type


@pytest.mark.parametrize(
    ("text", "spelling"),
    [
        ("int(11)", "int"),
        ("INT(8) unsigned zerofill", "int unsigned"),
        ("int zerofill", "int unsigned"),
        ("tinyint(1)", "tinyint(1)"),
        ("tinyint(1) unsigned", "tinyint unsigned"),
        ("tinyint(4)", "tinyint"),
        ("boolean", "tinyint(1)"),
        ("integer", "int"),
        ("middleint", "mediumint"),
        ("serial", "bigint unsigned"),
        ("decimal", "decimal(10,0)"),
        ("numeric(8,4) unsigned", "decimal(8,4)"),
        ("fixed(5)", "decimal(5,0)"),
        ("float(7,3)", "float"),
        ("float(25)", "double"),
        ("float(24)", "float"),
        ("real", "double"),
        ("double precision", "double"),
        ("bit", "bit(1)"),
        ("datetime(0)", "datetime"),
        ("timestamp(6)", "timestamp(6)"),
        ("year(4)", "year"),
        ("char", "char(1)"),
        ("varchar(300)", "varchar(300)"),
        ("nvarchar(3)", "varchar(3)"),
        ("blob(45)", "tinyblob"),
        ("text(70000)", "mediumtext"),
        ("geomcollection", "geometrycollection"),
        ("vector(3)", "vector(3)"),
        ("uuid", "uuid"),
    ],
)
def test_every_spelling_of_a_type_becomes_one(text: str, spelling: str) -> None:
    assert str(parse_type(text)) == spelling


def test_labels_keep_their_quotes_commas_and_brackets() -> None:
    kind = parse_type(r"enum('a','it''s','b,c)','(','\\','a\nb')")
    assert kind == MySqlType("enum", labels=("a", "it's", "b,c)", "(", "\\", "a\nb"))
