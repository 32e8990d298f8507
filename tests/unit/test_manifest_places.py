"""The scanner finds every key where it is written, however nastily."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import attrs
import pytest
import tomli
from hypothesis import given
from hypothesis import strategies as st

from agentbox._toml_places import KeyPath, Place, find, scan

NASTY = {
    "comment after header": ("[a] # [b]\nx = 1", ("a", "x"), Place(2, 1)),
    "hash in string": ('a = "# not a comment"\nb = 1', ("b",), Place(2, 1)),
    "bracket in string": ("a = '[no'\nb = 1", ("b",), Place(2, 1)),
    "bracket in comment": ("a = [ # ]\n 1,\n]\nb = 1", ("b",), Place(4, 1)),
    "escaped quote": ('a = "\\"\\\\"\nb = 1', ("b",), Place(2, 1)),
    "multi-line basic string": ('a = """\nb = 1\n[c]\n\\""" # "\n"""\nb = 2', ("b",), Place(6, 1)),
    "multi-line literal string": ("a = '''\nb = 1\n\"\"\"\n'''\nb = 2", ("b",), Place(5, 1)),
    "quotes before the closing three": ('a = """x"""""\nb = 2', ("b",), Place(2, 1)),
    "empty multi-line string": ('a = """"""\nb = 2', ("b",), Place(2, 1)),
    "array over lines with strings": ("a = [\n  ']',\n  \"]\", [1,\n 2]]\nb = 1", ("b",), Place(5, 1)),
    "inline table over lines": ("a = {\n b = 1, # }\n c = '}' }\nd = 1", ("d",), Place(4, 1)),
    "key inside an inline table": ("x = 1\n  a = { b = { c = 1 } }", ("a", "b", "c"), Place(2, 3)),
    "key inside an array": ("x = 1\na = [{ b = 1 }]", ("a", 0, "b"), Place(2, 1)),
    "dotted key": ("[t]\na . b.c = 1", ("t", "a", "b", "c"), Place(2, 1)),
    "middle of a dotted key": ("[t]\na.b.c = 1", ("t", "a", "b"), Place(2, 1)),
    "quoted key": ('"a.b" = 1', ("a.b",), Place(1, 1)),
    "escaped quoted key": ('x = 1\n"q\\"\\u0041" = 1', ('q"A',), Place(2, 1)),
    "equals sign in quoted key": ("'a = b' = 1\nc = 1", ("c",), Place(2, 1)),
    "empty key": ('[t]\n"" = 1', ("t", ""), Place(2, 1)),
    "bracket in quoted header": ('x = 1\n["a]b".c]\nd = 1', ("a]b", "c", "d"), Place(3, 1)),
    "spaced header": ("\n  [ a . 'b c' ]\nd = 1", ("a", "b c"), Place(2, 3)),
    "arrays of tables": ("[[a]]\nx = 1\n[[a]]\nx = 2", ("a", 1, "x"), Place(4, 1)),
    "table below an array of tables": ("[[a]]\n[[a]]\n[a.b]\nx = 2", ("a", 1, "b", "x"), Place(4, 1)),
    "array below an array of tables": ("[[a]]\n[[a.b]]\n[[a]]\n[[a.b]]\n[[a.b]]", ("a", 1, "b", 1), Place(5, 1)),
    "table that is opened again": ("[a.b]\n[a]\nx = 1", ("a",), Place(1, 1)),
    "Windows line ends": ('a = 1\r\n[b]\r\nc = """\r\n"""\r\nd = 1\r\n', ("b", "d"), Place(5, 1)),
    "tabs": ("\t[a]\n\t\tb\t=\t1", ("a", "b"), Place(2, 3)),
    "date with a space": ("a = 1979-05-27 07:32:00Z # x\nb = 1", ("b",), Place(2, 1)),
    "wide characters": ('é = "✓"\nb = 1'.replace("é", '"é"'), ("b",), Place(2, 1)),
    "no line end at the end": ("a = 1", ("a",), Place(1, 1)),
}


@pytest.mark.parametrize(("text", "path", "place"), NASTY.values(), ids=NASTY)
def test_a_key_is_found_where_its_statement_stands(text: str, path: KeyPath, place: Place) -> None:
    tomli.loads(text)

    assert find(scan(text), path) == place


def test_a_path_that_is_not_there_has_the_place_of_the_table_around_it() -> None:
    places = scan("x = 1\n[a.b]\nc = 1")

    assert find(places, ("a", "b", "missing")) == Place(2, 1)


def test_a_path_outside_of_every_table_has_no_place() -> None:
    assert find(scan("x = 1"), ("y",)) is None


def test_an_empty_text_has_no_places() -> None:
    assert scan("") == scan("# only a comment") == {}


def test_a_large_text_is_scanned_in_one_pass() -> None:
    text = "\n".join(f"key{number} = ['[', \"#\"] # {{" for number in range(8000))

    assert scan(text)["key7999",] == Place(8000, 1)


@attrs.frozen
class Written:
    """A manifest-like text and where each statement was put."""

    text: str
    places: dict[KeyPath, Place]


NAMES = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\x7f"), max_size=6)
VALUES = st.sampled_from(
    [
        "1",
        "'#'",
        '"[\\"]"',
        '"""\n[x]\nk = 1 # """',
        "'''\n\"\"\"\n]]'''",
        "[ # ]\n  '}', [2] ]",
        "{ a = '}', b.c = [1] }",
        "{ # {\n  a = 1,\n}",
        "07:32:00",
        '""',
        '"""a"""""',
    ]
)
NOISE = st.sampled_from(["", "\n", "# [x] k = 1\n", " \t# '''\n", "\n\n  \n", "\r\n"])


@st.composite
def keys(draw: st.DrawFn) -> tuple[tuple[str, ...], str]:
    """A dotted key: its names, and one of the ways to write it."""
    names = tuple(draw(st.lists(NAMES, min_size=1, max_size=3)))
    return names, draw(st.sampled_from([".", " . ", ".\t"])).join(draw(_spelling(name)) for name in names)


def _spelling(name: str) -> st.SearchStrategy[str]:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    ways = [f'"{escaped}"', '"' + "".join(f"\\U{ord(letter):08X}" for letter in name) + '"']
    if re.fullmatch("[A-Za-z0-9_-]+", name):
        ways.append(name)
    if "'" not in name:
        ways.append(f"'{name}'")
    return st.sampled_from(ways)


@st.composite
def texts(draw: st.DrawFn) -> Written:
    """A valid text of headers, statements, comments and blank lines."""
    text = ""
    table: tuple[str, ...] = ()
    places: dict[KeyPath, Place] = {}
    for _ in range(draw(st.integers(0, 6))):
        names, written = draw(keys())
        indent = draw(st.sampled_from(["", "  ", "\t"]))
        header = draw(st.booleans())
        path = names if header else table + names
        line = f"[{written}]" if header else f"{written} = {draw(VALUES)}"
        longer = text + draw(NOISE) + indent
        place = Place(longer.count("\n") + 1, len(longer) - longer.rfind("\n"))
        longer += line + draw(st.sampled_from(["\n", " # x\n", "\r\n"]))
        if not _is_valid(longer):
            continue
        text = longer
        table = path if header else table
        for length in range(1, len(path) + 1):
            places.setdefault(path[:length], place)
    return Written(text, places)


def _is_valid(text: str) -> bool:
    try:
        tomli.loads(text)
    except tomli.TOMLDecodeError:
        return False
    return True


@given(texts())
def test_every_statement_of_any_text_is_found_at_its_place(written: Written) -> None:
    assert scan(written.text) == written.places


@given(texts())
def test_every_key_that_the_parser_sees_has_a_place(written: Written) -> None:
    places = scan(written.text)

    assert all(find(places, path) for path in _paths(tomli.loads(written.text)))


def _paths(value: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield (*path, key)
        yield from _paths(child, (*path, key))
