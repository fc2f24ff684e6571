"""The environment: read once, every problem in one message, and time-outs that nest."""

from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from shared.errors import Misconfigured
from shared.settings import Settings, Timeouts, load_settings


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variable of the machine's and no .env file."""
    monkeypatch.chdir(tmp_path)
    for name in ("LEEWAY_SLOTS", "LEEWAY_DATABASE_URL", "LEEWAY_SECRET_KEY", "LLM", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def test_the_defaults_hold_together() -> None:
    settings = load_settings()
    assert settings.slots == 100
    assert settings.batch == 100
    assert settings.prefetch == 32
    assert settings.llm == "mock"
    assert settings.secret_key is None


def test_variables_are_read_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEEWAY_SLOTS", "7")
    monkeypatch.setenv("LEEWAY_TIMEOUT_LOCK", "1.5")
    monkeypatch.setenv("LLM", "gpt-test")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    settings = load_settings()
    assert settings.slots == 7
    assert settings.timeouts.lock == 1.5
    assert settings.llm == "gpt-test"
    assert settings.openai_api_key == SecretStr("sk-test")


def test_a_file_is_read_and_the_environment_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    Path(".env").write_text("LEEWAY_SLOTS=8\nLEEWAY_BATCH=9\nSOMEBODY_ELSE=1\n")
    monkeypatch.setenv("LEEWAY_SLOTS", "7")
    assert (load_settings().slots, load_settings().batch) == (7, 9)


def test_empty_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LEEWAY_SLOTS", "LEEWAY_SECRET_KEY", "LEEWAY_WHATSAPP_URL", "LEEWAY_TIMEOUT_LOCK", "LLM"):
        monkeypatch.setenv(name, "")
    settings = load_settings()
    assert (settings.slots, settings.secret_key, settings.llm) == (100, None, "mock")
    assert (settings.whatsapp_url, settings.timeouts.lock) == ("https://graph.facebook.com", 2.0)


@pytest.mark.parametrize(
    "url",
    ["leeway", "mysql://a:b@host/db", "postgresql://a:b@host:port/db", "postgresql://a:b@host:99999/db",
     "postgresql://a:b@[::1/db", "postgresql://a:b@my host/db"],
)  # fmt: skip
def test_a_database_s_url_out_of_form_is_named_and_not_repeated(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEEWAY_DATABASE_URL", url)
    monkeypatch.setenv("LEEWAY_SLOTS", "0")
    with pytest.raises(Misconfigured) as caught:
        load_settings()
    form = "LEEWAY_DATABASE_URL: must be of the form postgresql://user:password@host:port/database; LEEWAY_SLOTS: "
    assert form in str(caught.value)
    assert url not in str(caught.value).replace(form, "")


@pytest.mark.parametrize(
    "url",
    ["postgres://a:b%40@host/db", "postgresql://a@one:5432,two:5433/db?target_session_attrs=primary", "postgresql://a@[::1]:5432/db",
     "postgresql://postgres@/postgres?host=/tmp/a place"],
)  # fmt: skip
def test_whatever_form_postgres_takes_is_taken(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEEWAY_DATABASE_URL", url)
    assert load_settings().database_url == SecretStr(url)


@pytest.mark.parametrize(
    "url", ["example.com", "ftp://host", "https://", "https://host:99999", "https://[::1", "https://a b"]
)
@pytest.mark.parametrize("name", ["LEEWAY_PUBLIC_BASE_URL", "LEEWAY_TELEGRAM_URL"])
def test_an_address_of_the_web_out_of_form_is_named(
    name: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, url)
    with pytest.raises(Misconfigured, match=f"^Configuration: {name}: must be of the form https://host$"):
        load_settings()


# Secrets in files, as Docker and Kubernetes mount them


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[Path, Path]:
    """The directories of what an installation made, and of what was mounted."""
    made, mounted = tmp_path / "made", tmp_path / "mounted"
    made.mkdir()
    mounted.mkdir()
    monkeypatch.setattr("shared.settings.SECRET_FILES", (made, mounted, tmp_path / "absent"))
    return made, mounted


def test_a_secret_may_be_a_file_of_its_variable_s_name(files: tuple[Path, Path]) -> None:
    made, mounted = files
    (made / "LEEWAY_SECRET_KEY").write_text("made\n")
    (made / "OPENAI_API_KEY").write_text("sk-made\n")
    (mounted / "openai_api_key").write_text(" sk-mounted\n")
    settings = load_settings()
    assert settings.secret_key == SecretStr("made")
    assert settings.openai_api_key == SecretStr("sk-mounted")


def test_the_environment_and_dot_env_win_over_a_file_and_their_empty_values_do_not(
    monkeypatch: pytest.MonkeyPatch, files: tuple[Path, Path]
) -> None:
    for name in ("LEEWAY_SECRET_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"):
        (files[0] / name).write_text("of the file")
    monkeypatch.setenv("LEEWAY_SECRET_KEY", "of the environment")
    monkeypatch.setenv("GEMINI_API_KEY", "")
    Path(".env").write_text("OPENAI_API_KEY=of dot env\nLEEWAY_SECRET_KEY=of dot env\n")
    settings = load_settings()
    assert settings.secret_key == SecretStr("of the environment")
    assert settings.openai_api_key == SecretStr("of dot env")
    assert settings.gemini_api_key == SecretStr("of the file")


def test_a_dot_env_that_can_t_be_read_is_named_and_not_shown() -> None:
    Path(".env").write_bytes(b"LEEWAY_SECRET_KEY=hidden \xff")
    with pytest.raises(
        Misconfigured, match=r"^\.env can't be read: 'utf-8' codec can't decode byte"
    ) as error:
        load_settings()
    assert "hidden" not in str(error.value)


def test_a_file_that_can_t_be_read_is_named_and_not_shown(files: tuple[Path, Path]) -> None:
    (files[0] / "LEEWAY_SECRET_KEY").write_bytes(b"hidden \xff")
    with pytest.raises(Misconfigured, match="secret_key") as error:
        load_settings()
    assert "hidden" not in str(error.value)


URLS = [
    ("postgresql://leeway@postgres:5432/leeway", "postgresql://leeway:p%40ss%2F%25@postgres:5432/leeway"),
    ("postgresql://leeway@[::1]:5432/leeway?a=b", "postgresql://leeway:p%40ss%2F%25@[::1]:5432/leeway?a=b"),
    ("postgresql://leeway:own@postgres/leeway", "postgresql://leeway:own@postgres/leeway"),
    ("postgresql:///leeway?host=/run/postgresql", "postgresql:///leeway?host=/run/postgresql"),
]


@pytest.mark.parametrize(("url", "filled_in"), URLS, ids=[url for url, _ in URLS])
@pytest.mark.parametrize("of", ["database", "amqp"])
def test_a_password_of_its_own_goes_into_a_url_that_has_none(
    of: str, url: str, filled_in: str, files: tuple[Path, Path]
) -> None:
    (files[0] / f"LEEWAY_{of.upper()}_PASSWORD").write_text("p@ss/%\n")
    settings = load_settings(**{f"{of}_url": url})
    assert getattr(settings, f"{of}_url").get_secret_value() == filled_in


def test_a_broker_s_url_out_of_form_is_left_to_who_connects(files: tuple[Path, Path]) -> None:
    (files[0] / "LEEWAY_AMQP_PASSWORD").write_text("p@ss/%\n")
    settings = load_settings(amqp_url="amqp://leeway@[::1/leeway")
    assert settings.amqp_url.get_secret_value() == "amqp://leeway@[::1/leeway"


def test_what_is_handed_over_wins_over_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEEWAY_SLOTS", "7")
    assert load_settings(slots=3).slots == 3


def test_every_problem_is_named_with_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEEWAY_SLOTS", "many")
    monkeypatch.setenv("LEEWAY_BATCH", "0")
    monkeypatch.setenv("LEEWAY_LOG_LEVEL", "loud")
    monkeypatch.setenv("LEEWAY_PORT", "70000")
    with pytest.raises(Misconfigured) as error:
        load_settings()
    for name in ("LEEWAY_SLOTS", "LEEWAY_BATCH", "LEEWAY_LOG_LEVEL", "LEEWAY_PORT"):
        assert f"{name}: " in str(error.value)


def test_a_problem_of_a_time_out_is_named_with_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEEWAY_TIMEOUT_LOCK", "soon")
    with pytest.raises(Misconfigured, match="LEEWAY_TIMEOUT_LOCK"):
        load_settings()


def test_time_outs_that_do_not_nest_are_refused_at_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEEWAY_TIMEOUT_LOCK", "9")
    monkeypatch.setenv("LEEWAY_TIMEOUT_CONFIRM", "60")
    with pytest.raises(Misconfigured) as error:
        load_settings()
    assert "LOCK must be below STATEMENT" in str(error.value)
    assert "CONFIRM must be below DRAIN" in str(error.value)


def test_problems_of_settings_and_of_time_outs_come_in_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEEWAY_SLOTS", "many")
    monkeypatch.setenv("LEEWAY_TIMEOUT_LOCK", "9")
    with pytest.raises(Misconfigured) as error:
        load_settings()
    assert "LEEWAY_SLOTS" in str(error.value)
    assert "LOCK must be below STATEMENT" in str(error.value)


@pytest.mark.parametrize(
    "secret", ["database_url", "amqp_url", "database_password", "secret_key", "openai_api_key"]
)
def test_secrets_are_not_shown(secret: str) -> None:
    settings = load_settings(**{secret: "postgresql://user:hidden@host/db"})
    assert "hidden" not in repr(settings)
    assert "hidden" not in str(settings.model_dump())


def test_a_wrong_value_that_may_be_a_secret_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEEWAY_SLOTS", "hidden")
    with pytest.raises(Misconfigured) as error:
        load_settings()
    assert "hidden" not in str(error.value)


def test_settings_do_not_change_after_the_start() -> None:
    settings = load_settings()
    with pytest.raises(ValidationError):
        settings.slots = 1


# The nesting: each rule kept at its edge and broken by a little

RULES = [
    # what, values that hold, values that break it
    ("LOCK must be below STATEMENT", {"lock": 4.9}, {"lock": 5.0}),
    ("BEGIN_SEND + PROVIDER must be below UNKNOWN", {"unknown": 20.1}, {"unknown": 20.0}),
    ("twice HEARTBEAT must be below LEASE", {"heartbeat": 14.9}, {"heartbeat": 15.0}),
    ("BEGIN_SEND + PROVIDER must fit into DRAIN", {"provider": 15.0}, {"provider": 15.1}),
    ("DRAIN must be below GRACE", {"grace": 20.1}, {"grace": 20.0}),
    ("MODEL_CALL must be below TURN", {"model_call": 59.9}, {"model_call": 60.0}),
    ("CONFIRM must be below DRAIN", {"confirm": 19.9}, {"confirm": 20.0}),
    ("DRAIN_MODEL must be below DRAIN", {"drain_model": 19.9}, {"drain_model": 20.0}),
]


@pytest.mark.parametrize(("rule", "holds", "breaks"), RULES, ids=[row[0] for row in RULES])
def test_a_rule_of_the_nesting(rule: str, holds: dict[str, float], breaks: dict[str, float]) -> None:
    Timeouts(**holds)
    with pytest.raises(ValidationError) as error:
        Timeouts(**breaks)
    assert rule in str(error.value)
    assert sum(other in str(error.value) for other, _, _ in RULES) == 1


@pytest.mark.parametrize("name", Timeouts.model_fields)
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_a_time_out_is_a_number_of_seconds_above_nought(name: str, value: float) -> None:
    with pytest.raises(ValidationError):
        Timeouts(**{name: value})


def test_the_settings_of_the_specification() -> None:
    timeouts = Settings().timeouts
    assert (timeouts.lock, timeouts.statement, timeouts.confirm, timeouts.begin_send) == (2, 5, 5, 5)
    assert (timeouts.provider, timeouts.drain, timeouts.grace, timeouts.heartbeat) == (15, 20, 25, 10)
    assert (timeouts.lease, timeouts.unknown, timeouts.model_call, timeouts.turn) == (30, 45, 45, 60)
