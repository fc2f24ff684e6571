"""`leeway channel` and `leeway identities` on a real Postgres, as a person would call them."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from leeway.accounts import Accounts
from leeway.cli import app, sentence
from shared.channels.accounts import Twilio, WhatsApp
from shared.database import open_pool
from shared.database.pool import OWNER
from shared.ids import new_id
from shared.secrets import new_key
from shared.settings import Settings, Timeouts
from tests.support.commands import Ended, environment, leeway
from tests.support.factories import Ground, ground

pytestmark = pytest.mark.postgres

SECRETS = {
    "LEEWAY_CHANNEL_APP_SECRET": "the-app-secret",
    "LEEWAY_CHANNEL_ACCESS_TOKEN": "the-access-token",
    "LEEWAY_CHANNEL_AUTH_TOKEN": "the-auth-token",
    "LEEWAY_CHANNEL_API_KEY_SECRET": "the-key-secret",
    "LEEWAY_CHANNEL_BOT_TOKEN": "4242:the-bot-token",
}
NOWHERE = "http://127.0.0.1:1"
SID = "AC" + "0" * 32
WHATSAPP = ("--channel", "whatsapp", "--phone-number-id", "900000000000001", "--number", "+40700000100")
TWILIO = ("--channel", "twilio", "--account-sid", SID, "--number", "+40700000200")


class Run(Protocol):
    async def __call__(self, *words: str, fails: int = 0, **env: str) -> Ended: ...


@dataclass
class Shop:
    """The command line, and the rows that it works on."""

    run: Run
    rows: Ground
    accounts: Accounts

    async def stored(self, address: str, channel: str) -> Any:
        return await self.accounts.address((await self.accounts.named(address, channel)).id)

    async def audited(self) -> str:
        return json.dumps([[str(value) for value in row] for row in await self.rows.rows("audit_log")])


@pytest.fixture
async def shop(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Shop]:
    key = new_key()
    env = environment(
        LEEWAY_DATABASE_URL=database_url, LEEWAY_SECRET_KEY=key, COLUMNS="200", LEEWAY_TELEGRAM_URL=NOWHERE,
        LEEWAY_WHATSAPP_URL=NOWHERE, LEEWAY_TWILIO_URL=NOWHERE,
    )  # fmt: skip
    monkeypatch.setattr("leeway.operators.configure_logs", lambda **_: None)  # this process has its own

    async def run(*words: str, fails: int = 0, **more: str) -> Ended:
        def called(told: Sequence[str]) -> Ended:
            ended = CliRunner(env=env | SECRETS | more).invoke(app, told)
            if ended.exception is None or isinstance(ended.exception, SystemExit):
                return Ended(ended.exit_code, ended.stdout, ended.stderr)
            return Ended(1, ended.stdout, f"leeway: {sentence(ended.exception)}\n")

        ended = await asyncio.to_thread(called, words)
        assert ended.code == fails, ended
        assert "bug" not in ended.err
        for secret in SECRETS.values():
            assert secret not in ended.out + ended.err
        return ended

    owner = await open_pool(database_url, size=1, timeouts=Timeouts(), role=OWNER)
    async with ground(database_url) as rows:
        await rows.business(slug="corner")
        await rows.business(slug="other")
        yield Shop(run, rows, Accounts(owner, Settings(secret_key=SecretStr(key))))
    await owner.close()


async def test_a_whatsapp_number_is_added_with_what_its_provider_gave(shop: Shop) -> None:
    made = await shop.run(
        "channel", "add", "corner", *WHATSAPP, "--template", "reply", "--template-language", "en",
        LEEWAY_PUBLIC_BASE_URL="https://chat.corner.example",
    )  # fmt: skip
    assert "https://chat.corner.example/hooks/whatsapp/corner" in made.out
    stored = await shop.stored("corner", "whatsapp")
    assert [one.get_secret_value() for one in stored.secrets.inbound] == ["the-app-secret"]
    assert stored.secrets.outbound.get_secret_value() == "the-access-token"
    assert f"verify token     {stored.secrets.verify_token.get_secret_value()}" in made.out
    assert isinstance(stored.settings, WhatsApp)
    assert stored.settings.template is not None
    row = await shop.rows.row("channel_account", channel="whatsapp")
    assert (row["provider_address"], row["own_number"]) == ("900000000000001", "+40700000100")
    assert not row["carrier_takes_cancel"]
    audited = await shop.audited()
    assert "channel.add" in audited
    for secret in (*SECRETS.values(), stored.secrets.verify_token.get_secret_value()):
        assert secret not in audited


async def test_a_twilio_number_signs_with_the_token_and_sends_with_a_key(shop: Shop) -> None:
    await shop.run("channel", "add", "corner", *TWILIO, "--api-key", "SK1", "--signature", "sha256")
    stored = await shop.stored("corner", "twilio")
    assert stored.secrets.inbound[0].get_secret_value() == "the-auth-token"
    assert stored.secrets.outbound.get_secret_value() == "the-key-secret"
    assert isinstance(stored.settings, Twilio)
    assert (await shop.rows.row("channel_account", channel="twilio"))["carrier_takes_cancel"]
    plain = (*TWILIO[:4], "--number", "+40700000201", "--address", "plain", "--no-carrier-takes-cancel")
    await shop.run("channel", "add", "corner", *plain)
    stored = await shop.stored("plain", "twilio")
    assert stored.secrets.outbound.get_secret_value() == "the-auth-token"
    assert not (await shop.rows.row("channel_account", address="plain"))["carrier_takes_cancel"]


async def test_a_bot_is_added_for_polling_or_told_what_is_missing(shop: Shop) -> None:
    made = await shop.run("channel", "add", "corner", "--channel", "telegram")
    assert "Set LEEWAY_PUBLIC_BASE_URL" in made.out
    stored = await shop.stored("corner", "telegram")
    assert (await shop.rows.row("channel_account", channel="telegram"))["provider_address"] == "4242"
    assert stored.secrets.inbound[0].get_secret_value() not in made.out
    other = {"LEEWAY_CHANNEL_BOT_TOKEN": "4243:another"}
    polls = await shop.run("channel", "add", "other", "--channel", "telegram", "--polling", **other)
    assert "stored, but: " in polls.err  # Telegram can't be reached from here
    assert (await shop.stored("other", "telegram")).settings.polling


@pytest.mark.parametrize(
    ("words", "env", "code", "said"),
    [
        (("--channel", "whatsapp"), {}, 2, "needs --phone-number-id"),
        ((*WHATSAPP, "--polling"), {}, 2, "--polling belongs to --channel telegram"),
        ((*WHATSAPP, "--account-sid", SID), {}, 2, "--account-sid belongs to --channel twilio"),
        ((*WHATSAPP, "--template", "x"), {}, 2, "go together"),
        ((*WHATSAPP[:4], "--number", "0700"), {}, 2, "is no number"),
        ((*WHATSAPP[:2], "--phone-number-id", "x", "--number", "+40700000100"), {}, 2, "--phone-number-id must"),
        ((*WHATSAPP, "--api-version", "26"), {}, 2, "--api-version must"),
        ((*TWILIO[:2], "--account-sid", "AC1", "--number", "+40700000200"), {}, 2, "--account-sid must"),
        ((*TWILIO, "--signature", "md5"), {}, 2, "--signature must"),
        ((*TWILIO, "--signature", "sha256"), {}, 2, "needs --api-key"),
        (("--channel", "sim", "--number", "+40700000100"), {}, 2, "--number belongs to"),
        (WHATSAPP, {"LEEWAY_CHANNEL_APP_SECRET": ""}, 1, "The app secret is empty"),
        (WHATSAPP, {"LEEWAY_CHANNEL_ACCESS_TOKEN": "  "}, 1, "The access token is empty"),
        (TWILIO, {"LEEWAY_CHANNEL_AUTH_TOKEN": "\t"}, 1, "The auth token is empty"),
        (TWILIO, {"LEEWAY_CHANNEL_AUTH_TOKEN": "a b"}, 1, "blanks"),
        (("--channel", "telegram"), {"LEEWAY_CHANNEL_BOT_TOKEN": "nonsense"}, 1, "no bot token"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)  # fmt: skip
async def test_nothing_is_stored_of_what_can_not_be(
    shop: Shop, words: Sequence[str], env: dict[str, str], code: int, said: str
) -> None:
    ended = await shop.run("channel", "add", "corner", *words, fails=code, **env)
    assert said in " ".join(ended.err.replace("│", " ").split())
    assert not await shop.rows.rows("channel_account")


async def test_a_secret_is_asked_for_where_nobody_is_and_none_is_set(
    database_url: str, tmp_path: Path
) -> None:
    env = environment(LEEWAY_DATABASE_URL=database_url, LEEWAY_SECRET_KEY=new_key())
    ended = await leeway("channel", "add", "corner", *WHATSAPP, cwd=tmp_path, env=env, typed=b"x\n")
    assert (ended.code, ended.out) == (1, "")
    assert "set LEEWAY_CHANNEL_APP_SECRET" in ended.err


async def test_a_number_is_of_one_account(shop: Shop) -> None:
    await shop.run("channel", "add", "corner", *WHATSAPP)
    taken = await shop.run("channel", "add", "other", *WHATSAPP, fails=1)
    assert "900000000000001 on whatsapp belongs to an account already" in taken.err
    again = await shop.run("channel", "add", "other", *WHATSAPP, "--address", "corner", fails=1)
    assert "There is a whatsapp account corner already" in again.err


async def test_accounts_of_two_businesses_are_listed_each_with_its_state(shop: Shop) -> None:
    second = ("--phone-number-id", "900000000000002", "--number", "+40700000101", "--address", "second")
    third = ("--phone-number-id", "900000000000003", "--number", "+40700000102")
    await shop.run("channel", "add", "corner", *WHATSAPP)
    await shop.run("channel", "add", "corner", "--channel", "whatsapp", *second)
    await shop.run("channel", "add", "other", "--channel", "whatsapp", *third)
    await shop.run("channel", "disable", "second", "--why", "number moved")
    found = json.loads((await shop.run("channel", "list", "--json")).out)
    told = [(one["business"], one["address"], one["state"], one["disabled_why"]) for one in found]
    assert told == [
        ("corner", "corner", "on", None), ("corner", "second", "disabled", "number moved"), ("other", "other", "on", None),
    ]  # fmt: skip
    one = (await shop.run("channel", "list", "other")).out
    assert "whatsapp other  other  on" in one
    assert "second" not in one
    assert "off: number moved" in (await shop.run("channel", "list", "corner")).out
    assert "no business nobody" in (await shop.run("channel", "list", "nobody", fails=1)).err
    assert "is off already" in (await shop.run("channel", "disable", "second", fails=1)).err
    await shop.run("channel", "enable", "whatsapp/second")
    assert (await shop.rows.row("channel_account", address="second"))["disabled_why"] is None
    audited = await shop.audited()
    assert "channel.disable" in audited
    assert "channel.enable" in audited


async def test_the_channel_is_guessed_where_one_has_the_name(shop: Shop) -> None:
    await shop.run("channel", "add", "corner", *WHATSAPP)
    await shop.run("channel", "mode", "corner", "suggest")
    await shop.run("channel", "add", "corner", "--channel", "sim")
    unsure = await shop.run("channel", "mode", "corner", "off", fails=1)
    assert "accounts corner on sim, whatsapp; say which with --channel" in unsure.err
    assert "no account nobody" in (await shop.run("channel", "disable", "nobody", fails=1)).err


async def test_a_signing_secret_is_rotated_without_a_gap(shop: Shop) -> None:
    await shop.run("channel", "add", "corner", "--callback-url", "https://example.com/leeway")
    (first,) = (await shop.stored("corner", "generic")).secrets.inbound
    rotated = await shop.run("channel", "rotate", "corner", "--inbound")
    both = (await shop.stored("corner", "generic")).secrets.inbound
    assert both[1] == first
    assert both[0].get_secret_value() in rotated.out
    assert (
        "drop the old one first" in (await shop.run("channel", "rotate", "corner", "--inbound", fails=1)).err
    )
    await shop.run("channel", "rotate", "corner", "--finish")
    assert (await shop.stored("corner", "generic")).secrets.inbound == both[:1]
    assert "no old one" in (await shop.run("channel", "rotate", "corner", "--finish", fails=1)).err
    assert both[0].get_secret_value() not in await shop.audited()
    await shop.run("channel", "rotate", "corner", fails=2)
    await shop.run("channel", "rotate", "corner", "--inbound", "--outbound", fails=2)


async def test_a_providers_secret_is_asked_for_and_the_others_stay(shop: Shop) -> None:
    await shop.run("channel", "add", "corner", *WHATSAPP)
    before = (await shop.stored("corner", "whatsapp")).secrets
    same = await shop.run("channel", "rotate", "corner", "--inbound", fails=1)
    assert "has that secret already" in same.err
    fresh = {"LEEWAY_CHANNEL_ACCESS_TOKEN": "another-token"}
    assert "another-token" not in (await shop.run("channel", "rotate", "corner", "--outbound", **fresh)).out
    after = (await shop.stored("corner", "whatsapp")).secrets
    assert after.outbound is not None
    assert after.outbound.get_secret_value() == "another-token"
    assert (after.inbound, after.verify_token) == (before.inbound, before.verify_token)
    empty = await shop.run("channel", "rotate", "corner", "--inbound", fails=1, LEEWAY_CHANNEL_APP_SECRET="")
    assert "is empty" in empty.err


async def test_the_token_of_another_bot_is_refused(shop: Shop) -> None:
    await shop.run("channel", "add", "corner", "--channel", "telegram")
    other = {"LEEWAY_CHANNEL_BOT_TOKEN": "4243:another"}
    assert (
        "another bot" in (await shop.run("channel", "rotate", "corner", "--outbound", fails=1, **other)).err
    )


async def test_a_test_says_what_is_missing_and_fails(shop: Shop) -> None:
    await shop.run("channel", "add", "corner", *TWILIO)
    ended = await shop.run("channel", "test", "corner", "--channel", "twilio", fails=1)
    assert "FIX  Twilio can't be reached" in ended.out
    assert "FIX  LEEWAY_PUBLIC_BASE_URL is not set" in ended.out
    inside = {"LEEWAY_PUBLIC_BASE_URL": "https://10.0.0.1"}
    assert (
        "must be https and a public name"
        in (await shop.run("channel", "test", "corner", fails=1, **inside)).out
    )
    await shop.run("channel", "add", "corner", "--channel", "sim", "--address", "line")
    assert "ok " in (await shop.run("channel", "test", "line")).out


async def test_a_new_id_is_linked_to_who_it_was_or_refused(shop: Shop) -> None:
    account = await shop.rows.account(await shop.rows.business(slug="third"), address="line")
    old = await shop.rows.conversation(account, user_id="+40700000001")
    fresh = await shop.rows.conversation(account, user_id="+40700000002")
    business = (await shop.rows.state(old))["business"]
    changes = {}
    for new in ("+40700000002", "+40700000003"):
        changes[new] = new_id()
        await shop.rows.insert(
            "identity_change", id=changes[new], business=business, account=account,
            old_user_id="+40700000001", new_user_id=new,
        )  # fmt: skip
    assert len(json.loads((await shop.run("identities", "list", "--json", "--business", "third")).out)) == 2
    version = (await shop.rows.state(fresh))["version"]
    await shop.run("identities", "link", str(changes["+40700000002"]))
    customer = (await shop.rows.row("conversation", id=old))["customer"]
    assert (await shop.rows.row("conversation", id=fresh))["customer"] == customer
    assert (await shop.rows.row("channel_identity", conversation=fresh))["customer"] == customer
    assert (await shop.rows.state(fresh))["version"] > version
    again = await shop.run("identities", "refuse", str(changes["+40700000002"]), fails=1)
    assert "is linked already" in again.err
    unseen = await shop.run("identities", "link", str(changes["+40700000003"]), fails=1)
    assert "has not written yet" in unseen.err
    await shop.run("identities", "refuse", str(changes["+40700000003"]))
    assert "waits for a decision" in (await shop.run("identities", "list")).out
    assert "is no id" in (await shop.run("identities", "link", "nonsense", fails=1)).err
    assert "There is no change" in (await shop.run("identities", "link", str(new_id()), fails=1)).err
    audited = await shop.audited()
    assert "identity.link" in audited
    assert "+4070000000" not in audited


async def test_doctor_says_which_accounts_get_no_messages_are_off_or_lack_a_secret(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leeway.doctor.configure_logs", lambda **_: None)
    await shop.run("channel", "add", "corner", *TWILIO)
    await shop.run("channel", "add", "corner", *WHATSAPP)
    await shop.run("channel", "disable", "whatsapp/corner", "--why", "number moved")
    vault = shop.accounts._vault
    await shop.rows.set("channel_account", {"channel": "whatsapp"}, secrets=vault.seal({"inbound": ["x"]}))
    said = (await shop.run("doctor", fails=1, LEEWAY_AMQP_URL="amqp://127.0.0.1:1")).out
    assert "twilio corner gets no messages: LEEWAY_PUBLIC_BASE_URL is not set" in said
    assert "whatsapp corner is off, number moved" in said
    assert "whatsapp corner lacks what it sends with, the verify token" in said
