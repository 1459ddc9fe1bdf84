"""Every mutant fits the source tree: its old text occurs once, and its new text is Python."""

from __future__ import annotations

import ast
import builtins
import symtable
from pathlib import Path

import pytest

from tests.mutants.mutant import Mutant, WrongMutant, mutants, source_tree

MUTANTS = mutants()


@pytest.fixture(scope="module")
def sources() -> dict[Path, str]:
    return source_tree()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_old_text_of_a_mutant_occurs_once(mutant: Mutant, sources: dict[Path, str]) -> None:
    changed = mutant.source(sources)
    assert changed != sources[mutant.place(sources)]
    ast.parse(changed)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_uses_no_name_that_its_module_lacks(mutant: Mutant, sources: dict[Path, str]) -> None:
    """With such a name every test would fail, and notice nothing of the fault that was meant."""
    assert unknown_names(mutant.source(sources)) <= unknown_names(sources[mutant.place(sources)])


def unknown_names(source: str) -> set[str]:
    """Return the names that the code reads and that are neither in their function nor in the module."""
    module = symtable.symtable(source, "module", "exec")
    known = {symbol.get_name() for symbol in module.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    scopes, unknown = [module], set[str]()
    for scope in scopes:
        scopes += scope.get_children()
        symbols = [symbol for symbol in scope.get_symbols() if symbol.is_referenced() and symbol.is_global()]
        unknown |= {symbol.get_name() for symbol in symbols} - known - set(dir(builtins))
    return unknown


def test_mutants_have_different_names() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_named_tests_exist() -> None:
    root = Path(__file__).parents[2]
    for mutant in MUTANTS:
        assert all((root / test.partition("::")[0]).exists() for test in mutant.tests), mutant.tests


def test_a_text_that_occurs_twice_is_refused() -> None:
    twice = Mutant("twice", "none", "x = 1", "x = 2")
    with pytest.raises(WrongMutant, match="exactly once"):
        twice.place({Path("a.py"): "x = 1\n", Path("b.py"): "x = 1\n"})
    with pytest.raises(WrongMutant, match="nowhere"):
        twice.place({Path("a.py"): "y = 1\n"})


def test_the_planted_tree_has_the_fault_and_links_to_everything_else(tmp_path: Path, sources: dict[Path, str]) -> None:
    mutant = MUTANTS[0]
    mutant.plant(tmp_path / "tree", sources)
    place = mutant.place(sources)
    assert (tmp_path / "tree" / place).read_text() == mutant.source(sources)
    assert not (tmp_path / "tree" / place).is_symlink()
    assert not (tmp_path / "tree" / "penstock.py").is_symlink()
    assert (tmp_path / "tree" / "tests").is_symlink()
    assert Path(place).read_text() == sources[place]
