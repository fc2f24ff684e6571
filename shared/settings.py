"""The environment, read once and checked at start: every problem in one message that names its variable."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, Self
from urllib.parse import quote, urlsplit

from pydantic import (
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict, SettingsError

from shared.errors import Misconfigured
from shared.llm.tariffs import Tariff, read_tariffs
from shared.media import Medium

CHANNEL_PREFIX: Final = "LEEWAY_CHANNEL_"
# A file of a variable's name holds its value: what an installation made for itself, then what Docker or Kubernetes mounts.
SECRET_FILES: Final = (Path("/run/leeway"), Path("/run/secrets"))

# Nought would turn a time-out of Postgres off.
Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]


def _without_slash(url: object) -> object:
    return url.rstrip("/") if isinstance(url, str) else url


class Timeouts(BaseSettings):
    """Time-outs in seconds. They nest; `nested` says how, and a set that does not is refused at start."""

    model_config = SettingsConfigDict(
        env_prefix="LEEWAY_TIMEOUT_", env_file=".env", env_ignore_empty=True, extra="ignore", frozen=True
    )

    lock: Seconds = 2.0
    statement: Seconds = 5.0
    confirm: Seconds = 5.0
    begin_send: Seconds = 5.0
    provider: Seconds = 15.0
    drain: Seconds = 20.0
    grace: Seconds = 25.0
    drain_model: Seconds = 15.0
    heartbeat: Seconds = 10.0
    lease: Seconds = 30.0
    unknown: Seconds = 45.0
    model_call: Seconds = 45.0
    turn: Seconds = 60.0
    hold: Seconds = 600.0

    @model_validator(mode="after")
    def nested(self) -> Self:
        rules = (
            (self.lock < self.statement, "LOCK must be below STATEMENT"),
            (self.begin_send + self.provider < self.unknown, "BEGIN_SEND + PROVIDER must be below UNKNOWN"),
            (2 * self.heartbeat < self.lease, "twice HEARTBEAT must be below LEASE"),
            (self.begin_send + self.provider <= self.drain, "BEGIN_SEND + PROVIDER must fit into DRAIN"),
            (self.drain < self.grace, "DRAIN must be below GRACE (the container's stop_grace_period)"),
            (self.model_call < self.turn, "MODEL_CALL must be below TURN"),
            (self.confirm < self.drain, "CONFIRM must be below DRAIN"),
            (self.drain_model < self.drain, "DRAIN_MODEL must be below DRAIN"),
        )
        broken = [text for holds, text in rules if not holds]
        if broken:
            raise ValueError("; ".join(broken))
        return self


class Settings(BaseSettings):
    """What every process of an installation reads. Per-business settings live in Postgres instead.

    A value comes from the environment, else from `.env`, else from a file of the variable's name; empty is not set.
    """

    model_config = SettingsConfigDict(
        env_prefix="LEEWAY_",
        env_file=".env",
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        populate_by_name=True,
    )

    database_password: SecretStr | None = None  # for a URL without one
    database_url: SecretStr = SecretStr("postgresql://leeway:leeway@127.0.0.1:5432/leeway")
    amqp_password: SecretStr | None = None  # for a URL without one
    amqp_url: SecretStr = SecretStr("amqp://guest:guest@127.0.0.1:5672/")
    secret_key: SecretStr | None = None
    pool_size: int = Field(default=4, ge=1, le=100)

    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    metrics_host: str = "127.0.0.1"
    metrics_port: int = Field(default=0, ge=0, le=65535)

    slots: int = Field(default=100, ge=1, le=10_000)
    batch: int = Field(default=100, ge=1, le=400)
    prefetch: int = Field(default=32, ge=1, le=1_000)
    allow_internal_callbacks: bool = False
    public_base_url: Annotated[str, BeforeValidator(_without_slash)] = (
        ""  # as the channels call us: https://host, no slash
    )
    whatsapp_url: Annotated[str, BeforeValidator(_without_slash)] = "https://graph.facebook.com"
    twilio_url: Annotated[str, BeforeValidator(_without_slash)] = "https://api.twilio.com"
    telegram_url: Annotated[str, BeforeValidator(_without_slash)] = "https://api.telegram.org"

    media: Annotated[frozenset[Medium], NoDecode] = frozenset()  # what the model is given besides text
    media_bytes_max_audio: int = Field(default=16 * 1024 * 1024, ge=1, le=64 * 1024 * 1024)
    media_bytes_max_image: int = Field(default=5 * 1024 * 1024, ge=1, le=64 * 1024 * 1024)

    llm: str = Field(default="mock", validation_alias="LLM")
    openai_api_key: SecretStr | None = Field(default=None, validation_alias="OPENAI_API_KEY")
    gemini_api_key: SecretStr | None = Field(default=None, validation_alias="GEMINI_API_KEY")
    deepseek_api_key: SecretStr | None = Field(default=None, validation_alias="DEEPSEEK_API_KEY")
    anthropic_api_key: SecretStr | None = Field(default=None, validation_alias="ANTHROPIC_API_KEY")
    openai_compatible_api_key: SecretStr | None = Field(
        default=None, validation_alias="OPENAI_COMPATIBLE_API_KEY"
    )
    prices: Annotated[Mapping[str, Tariff], NoDecode] = Field(default_factory=dict)
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    otlp_endpoint: Annotated[str, BeforeValidator(_without_slash)] = Field(
        default="", pattern=r"^(https?://[^\s/]+(/\S*)?)?$", validation_alias="OTEL_EXPORTER_OTLP_ENDPOINT"
    )

    timeouts: Timeouts = Field(default_factory=Timeouts)

    @field_validator("database_url", "amqp_url")
    @classmethod
    def _with_password(cls, url: SecretStr, about: ValidationInfo) -> SecretStr:
        password = about.data.get(str(about.field_name).replace("_url", "_password"))
        return SecretStr(_filled_in(url.get_secret_value(), password.get_secret_value())) if password else url

    @field_validator("database_url")
    @classmethod
    def _of_postgres(cls, url: SecretStr) -> SecretStr:
        if not _is_url(url.get_secret_value(), "postgresql", "postgres"):
            raise ValueError("must be of the form postgresql://user:password@host:port/database")
        return url

    @field_validator("public_base_url", "whatsapp_url", "twilio_url", "telegram_url")
    @classmethod
    def _of_http(cls, url: str) -> str:
        if url and not (_is_url(url, "https", "http") and urlsplit(url).hostname):
            raise ValueError("must be of the form https://host")
        return url

    @field_validator("media", mode="before")
    @classmethod
    def _media(cls, told: object) -> object:
        if not isinstance(told, str):
            return told
        named = {word.strip().lower() for word in told.split(",") if word.strip()}
        if not named <= set(Medium):
            raise ValueError("must be empty, or audio, images or both with a comma between")
        return frozenset(Medium(word) for word in named)

    @field_validator("prices", mode="before")
    @classmethod
    def _prices(cls, told: object) -> object:
        return read_tariffs(told) if isinstance(told, str) else told


class Simulation(BaseSettings):
    """What `leeway sim` alone reads, as it is written: its reader says what is wrong with it. Empty is not set."""

    model_config = SettingsConfigDict(env_file=".env", extra="ignore", frozen=True, env_ignore_empty=True)

    autonomy: str | None = Field(default=None, validation_alias="AUTONOMY")


class ChannelSecrets(BaseSettings):
    """What `leeway channel` alone reads: secrets of providers, for who has no terminal to type them at."""

    model_config = SettingsConfigDict(env_prefix=CHANNEL_PREFIX, extra="ignore", frozen=True)

    app_secret: SecretStr | None = None
    access_token: SecretStr | None = None
    auth_token: SecretStr | None = None
    api_key_secret: SecretStr | None = None
    bot_token: SecretStr | None = None


def load_settings(**overrides: object) -> Settings:
    """The settings from the environment, ``.env`` and files of secrets; `overrides` win.

    Raises Misconfigured with every problem.
    """
    try:
        return _read(overrides)
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f".env can't be read: {error}") from error


def _read(overrides: dict[str, object]) -> Settings:
    problems: list[str] = []
    if "timeouts" not in overrides:
        try:
            overrides["timeouts"] = Timeouts()
        except ValidationError as error:
            problems += _problems(error, "LEEWAY_TIMEOUT_")
            overrides["timeouts"] = Timeouts.model_construct()  # to look at the others all the same
    try:
        files = [directory for directory in SECRET_FILES if directory.is_dir()] or None
        settings = Settings(_secrets_dir=files, **overrides)  # type: ignore[arg-type, call-arg]  # pydantic checks each of them
    except ValidationError as error:
        problems += _problems(error, "LEEWAY_")
    except SettingsError as error:  # a file that can't be read
        problems.append(f"{error}: {error.__cause__}")
    if problems:
        raise Misconfigured("Configuration: " + "; ".join(problems))
    return settings


def _is_url(text: str, *schemes: str) -> bool:
    """Whether it begins with one of them, and its ports are numbers. Of Postgres it may name several hosts."""
    try:
        parts = urlsplit(text)
        for host in parts.netloc.rpartition("@")[2].split(","):
            _ = urlsplit(f"//{host}").port  # raises
    except ValueError:
        return False
    return parts.scheme in schemes and not any(one.isspace() for one in parts.netloc)


def _filled_in(url: str, password: str) -> str:
    """The URL with the password for its user, unless it has one or names nobody."""
    try:
        parts = urlsplit(url)
        user, known = parts.username, parts.password
    except ValueError:  # which is said where it is checked
        return url
    if user is None or known is not None:
        return url
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"{user}:{quote(password, safe='')}@{host}").geturl()


def _problems(error: ValidationError, prefix: str) -> list[str]:
    """Each with the variable it is about; without the values, which may be secrets."""
    return [
        f"{_variable(item['loc'], prefix)}: {item['msg'].removeprefix('Value error, ')}"  # pydantic's, of ours
        for item in error.errors()
    ]


def _variable(path: tuple[int | str, ...], prefix: str) -> str:
    name = ".".join(str(part) for part in path)
    return name if name.isupper() else f"{prefix}{name.upper() or '…'}"
