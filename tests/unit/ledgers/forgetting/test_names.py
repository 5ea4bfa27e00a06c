"""Where a name is found in text, and where it is not."""

import json

import pytest

from nexus.ledgers.forgetting.targets import Names


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Anna", "I met Anna."),
        ("Anna", "ANNA!"),
        ("Anna", "Anna's dog"),
        ("Anna", "Annas Hund"),
        ("Anna", "see anna_42"),
        ("José", "jose was there"),
        ("Jose", "JOSÉ"),
        ("José", "Jose\u0301"),
        ("Ada Lovelace", "ada.lovelace@example.org"),
        ("Ada Lovelace", "Ada\n  Lovelace"),
        ("ada@example.org", "write to <Ada@Example.org>"),
        ("+44 20 7946", "call +44-20-7946 now"),
        ("C++", "She writes C++ daily"),
        ("田中", "田中さんは元気です"),
        ("🐱🐱", "from🐱🐱🐱"),
        ("O'Brien", "o'brien"),
        ("Anna", json.dumps({"text": "hello\nAnna"})),
        ("José", json.dumps({"text": "hello José"})),
        ("Anna", json.dumps({"arguments": json.dumps({"text": "\tAnna"})})),
        ("😀 Bot", json.dumps(["😀 Bot"])),
    ],
)
def test_a_name_is_found(name: str, text: str) -> None:
    assert Names.of([name]).found(text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Ann", "Anna"),
        ("Anna", "Joanna"),
        ("Mark", "marking the remarkable"),
        ("Will", "willing"),
        ("C++", "vitamin C"),
        ("Ada Lovelace", "Ada Byron"),
        ("Anna", ""),
    ],
)
def test_a_word_that_only_resembles_it_is_not(name: str, text: str) -> None:
    assert not Names.of([name]).found(text)


def test_names_are_distinct_long_enough_and_wanted() -> None:
    names = Names.of(["Anna", "ANNA ", None, "A", "May", "anna@example.org"], without=["may"])
    assert names.all == ("Anna", "anna@example.org")


def test_one_name_can_be_looked_for_alone() -> None:
    names = Names.of(["Anna", "Bob"])
    assert names.found("Bob", 1)
    assert not names.found("Bob", 0)


def test_without_names_nothing_is_found() -> None:
    assert not Names.of([]).found("anything")


@pytest.mark.parametrize(
    ("name", "query"),
    [("Ada Lovelace", '"Ada Lovelace"'), ('a"b OR c', '"a b OR c"'), ("田中", None), ("🐱🐱", None)],
)
def test_the_index_is_asked_for_a_phrase_where_it_can_know_it(name: str, query: str | None) -> None:
    assert Names.of([name]).query(0) == query
