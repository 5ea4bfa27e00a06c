"""Aliases are matched whatever their case, spacing, script variants and country codes."""

import pytest

from nexus.memory.normalisation import normalize, split_type


@pytest.mark.parametrize(
    ("type_", "text", "expected"),
    [
        ("name", "  Sarah   CHEN ", "sarah chen"),
        ("name", "\ufb01ona \uff2f\u2019Neill", "fiona o\u2019neill"),
        ("name", "STRASSE", "strasse"),
        ("name", "Straße", "strasse"),
        ("email", "<Sarah.Chen@Company.COM>", "sarah.chen@company.com"),
        ("email", "mailto:a+b@x.org", "a+b@x.org"),
        ("phone", "+1 (650) 253-0000", "+16502530000"),
        ("phone", "tel:+44 20 7946 0958", "+442079460958"),
        ("phone", "0176 123", "0176123"),
        ("handle", "@Sarah_C", "sarah_c"),
        ("url", "https://www.Example.com:443/Sarah/?q=1#top", "example.com/Sarah?q=1"),
        ("url", "http://example.com", "example.com"),
        ("url", "http://[broken", "http://[broken"),
        ("employee_number", " AB 12 ", "ab 12"),
    ],
)
def test_each_type_is_cleaned_in_its_own_way(type_: str, text: str, expected: str) -> None:
    assert normalize(text, type_) == expected


def test_a_national_number_is_completed_with_the_region() -> None:
    assert normalize("030 123456", "phone", phone_region="de") == "+4930123456"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Sarah:name", ("Sarah", "name")),
        ("sarah.chen@company.com:email", ("sarah.chen@company.com", "email")),
        ("https://example.com/a:url", ("https://example.com/a", "url")),
        ("https://example.com/a", ("https://example.com/a", "url")),
        ("sarah@example.com", ("sarah@example.com", "email")),
        ("@sarah", ("@sarah", "handle")),
        ("+1 650 253 0000", ("+1 650 253 0000", "phone")),
        ("Project: Apollo", ("Project: Apollo", "name")),
        ("Re:Zero", ("Re:Zero", "name")),
        ("4711:employee_number", ("4711", "employee_number")),
    ],
)
def test_an_alias_carries_its_type_or_shows_it(text: str, expected: tuple[str, str]) -> None:
    assert split_type(text) == expected
