"""The scan of the tree for credentials: it finds each kind, and nothing in the tree."""

import pytest

import secret_scan


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("private key", "-----BEGIN " + "RSA PRIVATE KEY-----\n" + "A" * 64),
        ("private key", "-----BEGIN " + "PRIVATE KEY-----\n" + "A" * 64),
        ("Anthropic key", "sk-" + "ant-api03-" + "a" * 90),
        ("OpenAI key", "sk-" + "proj-" + "a" * 20 + "T3Blbk" + "FJ" + "b" * 20),
        ("AWS key", "AKIA" + "ABCDEFGHIJKLMNOP"),
        ("GitHub token", "ghp" + "_" + "a" * 36),
        ("GitLab token", "glpat" + "-" + "a" * 20),
        ("Google key", "AIza" + "a" * 35),
        ("Slack token", "xoxb" + "-1234567890-" + "a" * 24),
        ("PyPI token", "pypi-" + "AgEIcHlwaS5vcmc" + "a" * 60),
    ],
)
def test_each_kind_of_credential_is_found_with_its_line(kind: str, text: str) -> None:
    assert secret_scan.found(f"first line\n  key = '{text}'\n") == [(2, kind)]


def test_ordinary_text_holds_none() -> None:
    assert secret_scan.found("sk-very-secret, env:ANTHROPIC_API_KEY, AKIA, -----BEGIN CERTIFICATE-----") == []


def test_nothing_in_the_tree_looks_like_a_credential(capsys: pytest.CaptureFixture[str]) -> None:
    assert secret_scan.main() == 0, capsys.readouterr().out
