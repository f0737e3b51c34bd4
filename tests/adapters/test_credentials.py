"""Credentials: where they come from, what is said when they are missing, and that they are never shown."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from geode.adapters.credentials import CredentialError, Masker, Secrets, mask, resolve
from geode.adapters.options import CredentialOptions

KEY = "zai-0123456789abcdef"
ENV = CredentialOptions("env", ("FIRST_KEY", "SECOND_KEY"), how="make a key at https://example.com/keys")
CODEX = CredentialOptions("codex_file")
NOW = 1_800_000_000


def jwt(**claims: Any) -> str:
    part = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"eyJhbGciOiJub25lIn0.{part}.c2lnbmF0dXJl"


def fault(credential: CredentialOptions, environ: dict[str, str], now: float | None = None) -> str:
    with pytest.raises(CredentialError) as caught:
        resolve(credential, environ, "x", now=now)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_the_first_variable_that_is_set() -> None:
    assert resolve(ENV, {"FIRST_KEY": KEY, "SECOND_KEY": "other"}, "x") == Secrets(KEY)
    assert resolve(ENV, {"FIRST_KEY": " ", "SECOND_KEY": f" {KEY}\n"}, "x") == Secrets(KEY)


def test_a_missing_variable_is_named_with_the_way_to_get_it() -> None:
    assert fault(ENV, {"OTHER_KEY": KEY}) == (
        "adapter x: set the environment variable FIRST_KEY or SECOND_KEY (make a key at https://example.com/keys)"
    )


@pytest.mark.parametrize("value", ["a b" * 4, "ké" * 4, "line\nline2"])
def test_a_value_that_is_no_key_is_never_shown(value: str) -> None:
    text = fault(ENV, {"FIRST_KEY": value})
    assert text.startswith("adapter x: the environment variable FIRST_KEY holds characters that no key has")
    assert value not in text


def test_no_credential_needed() -> None:
    assert resolve(CredentialOptions(), {}, "x") == Secrets(None)


def test_secrets_hide_in_their_repr() -> None:
    assert f"{Secrets(KEY, 'acc-1')} {Secrets()!r}" == (
        "Secrets(value='***', account_id='***') Secrets(value=None, account_id=None)"
    )


# ----------------------------------------------------------------------------------------------------------- codex file


def codex(folder: Path, data: Any) -> dict[str, str]:
    folder.mkdir(exist_ok=True)
    (folder / "auth.json").write_text(data if isinstance(data, str) else json.dumps(data))
    return {"CODEX_HOME": str(folder)}


def test_a_codex_login(tmp_path: Path) -> None:
    token = jwt(exp=NOW + 60)
    environ = codex(tmp_path, {"tokens": {"access_token": token, "account_id": "acc-1"}})
    assert resolve(CODEX, environ, "x", now=NOW) == Secrets(token, "acc-1")


def test_a_codex_login_in_the_home_folder_or_a_named_file(tmp_path: Path) -> None:
    codex(tmp_path / ".codex", {"tokens": {"access_token": "opaque-token", "account_id": "acc-1"}})
    found = Secrets("opaque-token", "acc-1")
    assert resolve(CODEX, {"HOME": str(tmp_path)}, "x") == found
    named = CredentialOptions("codex_file", file="~/.codex/auth.json")
    assert resolve(named, {"HOME": str(tmp_path)}, "x") == found


def test_the_account_of_the_token_where_the_file_names_none(tmp_path: Path) -> None:
    token = jwt(exp=NOW + 60, **{"https://api.openai.com/auth": {"chatgpt_account_id": "acc-2"}})
    assert resolve(CODEX, codex(tmp_path, {"tokens": {"access_token": token}}), "x", now=NOW) == Secrets(token, "acc-2")


def test_faults_of_the_codex_file(tmp_path: Path) -> None:
    path = tmp_path / "auth.json"
    login = "(run `codex login` and sign in with ChatGPT)"
    environ = {"CODEX_HOME": str(tmp_path)}
    assert fault(CODEX, environ) == f"adapter x: no Codex login at {path} {login}"
    none = f"adapter x: {path} holds no tokens.access_token {login}"
    for data in ("{", "[]", {}, {"tokens": None}, {"tokens": {"access_token": ""}}):
        assert fault(CODEX, codex(tmp_path, data)) == none
    with_key = {"OPENAI_API_KEY": "sk-0123456789", "tokens": None}
    assert fault(CODEX, codex(tmp_path, with_key)) == (
        f"adapter x: {path} holds an API key and no ChatGPT login {login}"
    )
    expired = {"tokens": {"access_token": jwt(exp=NOW), "account_id": "a"}}
    assert fault(CODEX, codex(tmp_path, expired), NOW) == (
        f"adapter x: the login in {path} has expired; run `codex` once and it renews it"
    )


# -------------------------------------------------------------------------------------------------------------- masking


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"key {KEY}!", "key ***!"),
        ("Authorization: Bearer abcdefgh123", "Authorization: Bearer ***"),
        ("provided: sk-ant-api03-abc_DEF-123", "provided: ***"),
        (jwt(exp=1), "***"),
        ("0123456789abcdef0123456789abcdef.ABCDEFGHabcdefgh", "***"),
        ("a risk-free task, max_tokens 5, bearer of news", "a risk-free task, max_tokens 5, bearer of news"),
    ],
)
def test_secrets_in_text(text: str, shown: str) -> None:
    assert mask(text, Secrets(KEY)) == shown


def test_a_secret_with_characters_that_json_or_urls_escape() -> None:
    odd = 'ab"cd\\ef/gh'
    masker = Masker(odd)
    assert masker.text(json.dumps({"k": odd})) == '{"k": "***"}'
    assert masker.text("https://h/?k=ab%22cd%5Cef%2Fgh") == "https://h/?k=***"


def test_secrets_in_json_and_headers() -> None:
    masker = Masker(Secrets(KEY, "account-7"))
    given = {"a": [KEY, 1, None], "api_key": "short", "max_tokens": 3, "nested": {"access_token": "t", "token": "x"}}
    assert masker.json(given) == {
        "a": ["***", 1, None],
        "api_key": "***",
        "max_tokens": 3,
        "nested": {"access_token": "***", "token": "x"},
    }
    headers = {"Authorization": f"Bearer {KEY}", "X-Api-Key": "k", "ChatGPT-Account-ID": "account-7", "Accept": "*/*"}
    assert masker.headers(headers) == {
        "Authorization": "Bearer ***",
        "X-Api-Key": "***",
        "ChatGPT-Account-ID": "***",
        "Accept": "*/*",
    }
