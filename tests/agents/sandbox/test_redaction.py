from __future__ import annotations

import json
from urllib.parse import quote

from hypothesis import given, settings
from hypothesis import strategies as st

from otpy_agents.store.redaction import Redaction, is_secret_name, without_secrets


def test_declared_names_count_whatever_they_are_called() -> None:
    """A variable with a harmless name is secret once it is declared (G-04)."""
    environment = {"DATABASE_URL": "postgres://me:pw@host", "HOME": "/home/me"}
    assert Redaction(environment)("at postgres://me:pw@host") == "at postgres://me:pw@host"
    clean = Redaction(environment, names=["DATABASE_URL"])
    assert clean("at postgres://me:pw@host, /home/me") == "at [DATABASE_URL], /home/me"


def test_names_tell_secrets() -> None:
    """Names that hold key, secret, password or token are secret (G-04), joined or apart."""
    secret = ("API_KEY", "APIKEY", "KEY_FILE", "PGPASSWORD", "MY_TOKEN", "TOKEN2", "CLIENTSECRET")
    assert [name for name in secret if not is_secret_name(name)] == []
    plain = ("KEYBOARD", "MAX_TOKENS", "TOKENS_LEFT", "TOKENIZERS_PARALLELISM", "PATH", "HOME")
    assert [name for name in plain if is_secret_name(name)] == []


def test_a_json_value_keeps_its_form() -> None:
    """A number that equals a secret stays a number, so that the value stays readable."""
    clean = Redaction({"API_KEY": "123456"})
    assert without_secrets({"a": [123456, "at 123456"]}, clean) == {"a": [123456, "at [API_KEY]"]}


def test_values_from_elsewhere_count_too() -> None:
    """The content of a credential file is replaced by the name given."""
    clean = Redaction({}, values={"claude login": "sk-ant-1234"})
    assert clean("using sk-ant-1234") == "using [claude login]"
    assert clean.longest == len("sk-ant-1234")


def test_each_line_of_a_secret_with_lines_is_found() -> None:
    """Output is read line by line, so each line of a key counts."""
    key = "-----BEGIN KEY-----\nQUJDREVG\nR0hJSktM\n-----END KEY-----\n"
    clean = Redaction({"DEPLOY_KEY": key})
    assert clean("R0hJSktM") == "[DEPLOY_KEY]"
    assert "QUJD" not in clean(json.dumps({"key": key}))


@settings(deadline=None)  # the machine may be busy
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<>"), min_size=6))
def test_a_secret_is_found_as_json_and_urls_write_it(secret: str) -> None:
    """Agents write events as JSON, so that is how most secrets would leak."""
    clean = Redaction({}, values={"it": secret})
    forms = (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
    for form in (*forms, quote(secret, safe="")):
        assert clean(f"<{form}>") == "<[it]>"


def test_without_secrets_nothing_changes() -> None:
    """A text is cut exactly where it was asked."""
    clean = Redaction({})
    assert (clean("text"), clean.head("some text", 4), clean.longest) == ("text", "some", 0)
