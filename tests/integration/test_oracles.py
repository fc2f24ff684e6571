"""The vendors' own packages agree with ours: on every signature, and on what they can read of a payload.

Where they differ, the difference stands here with its reason, and is checked as one.
"""

import time
from collections import Counter
from typing import Any

import pytest

from services.ingest.core.entrance import Account, Post
from services.ingest.core.entrances import ENTRANCES
from shared.channels.accounts import Twilio
from shared.ids import AccountId, BusinessId
from shared.signing import Signature, decode_secret
from tests.oracles.asking import Judge
from tests.oracles.signatures import (
    FORM,
    MetaCase,
    StandardCase,
    TwilioCase,
    meta_cases,
    meta_signed,
    standard_cases,
    standard_signed,
    twilio_cases,
    twilio_signed,
)

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def account(channel: str, *keys: bytes, **fields: Any) -> Account:
    return Account(
        id=AccountId(1), business=BusinessId(1), business_slug="acme", channel=channel, address="acme", keys=keys, **fields
    )  # fmt: skip


# Twilio


def twilio_ours(case: TwilioCase) -> bool:
    settings = Twilio(account_sid="AC" + "0" * 32, number="+40700000100", signature="sha256" if case.algorithm == "sha256" else "sha1")  # fmt: skip
    headers = {b"content-type": case.content_type.encode(), b"x-twilio-signature": case.signature.encode()}
    post = Post(url=case.url, headers=headers, body=case.body, query=case.url.partition("?")[2].encode())
    checked = ENTRANCES["twilio"].check(post, account("twilio", case.key.encode(), settings=settings), 0.0)
    return checked is Signature.GOOD


def twilio_theirs(judge: Judge, case: TwilioCase) -> Any:
    return judge.ask(
        "twilio_signature", url=case.url, body=case.body.decode(), form=case.form, signature=case.signature,
        key=case.key, algorithm=f"HMAC_{case.algorithm.upper()}",
    )  # fmt: skip


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_twilios_validator_and_ours_agree(judge: Judge, seed: int) -> None:
    said: Counter[bool] = Counter()
    for case in twilio_cases(seed, most=400):
        theirs = twilio_theirs(judge, case)
        assert twilio_ours(case) is theirs, case
        said[theirs] += 1
    assert min(said[True], said[False]) > 100, "both answers are common, or the agreement says little"


URL = "https://agent.example.test/hooks/twilio/acme"


def test_a_body_that_nothing_signs_is_refused_where_twilios_validator_breaks(judge: Judge) -> None:
    """Without bodySHA256 a JSON body is outside the signature: its validator takes the text for a form and raises."""
    case = TwilioCase(url=URL, body=b'{"a": 1}', content_type="application/json", key="k", algorithm="sha1", signature=twilio_signed(URL, [], "k", "sha1"))  # fmt: skip
    assert twilio_theirs(judge, case) == {"raised": "TypeError"}
    assert twilio_ours(case) is False


def test_an_upper_case_host_is_the_same_host_to_nobody_who_signed_it_in_lower_case(judge: Judge) -> None:
    """A public base URL is configured in lower case, so that host names are compared as they were signed."""
    pairs = [("Body", "Hello")]
    case = TwilioCase(url=URL, body=b"Body=Hello", content_type=FORM, key="k", algorithm="sha1", form=[["Body", "Hello"]],
                      signature=twilio_signed(URL.replace("agent", "AGENT"), pairs, "k", "sha1"))  # fmt: skip
    assert twilio_theirs(judge, case) is False
    assert twilio_ours(case) is False


# Meta


def meta_ours(case: MetaCase) -> bool:
    post = Post(url="", headers={b"x-hub-signature-256": case.signature.encode()}, body=case.body)
    checked = ENTRANCES["whatsapp"].check(post, account("whatsapp", case.key.encode()), 0.0)
    return checked is Signature.GOOD


def meta_theirs(judge: Judge, case: MetaCase) -> Any:
    return judge.ask("meta_signature", body=case.body, signature=case.signature, key=case.key)


def test_pywas_check_of_metas_signature_and_ours_agree(judge: Judge) -> None:
    said: Counter[bool] = Counter()
    for case in meta_cases(4, most=400):
        theirs = meta_theirs(judge, case)
        assert meta_ours(case) is theirs, case
        said[theirs] += 1
    assert min(said[True], said[False]) > 100


def test_a_signature_without_its_prefix_is_refused_where_pywa_takes_it(judge: Judge) -> None:
    """Meta always writes `sha256=`; what does not is not Meta's."""
    body = b'{"object": "whatsapp_business_account"}'
    case = MetaCase(body=body, key="s", signature=meta_signed(body, "s").removeprefix("sha256="))
    assert meta_theirs(judge, case) is True
    assert meta_ours(case) is False


# Standard Webhooks


def standard_ours(case: StandardCase, *, now_s: float) -> bool:
    headers = {name.encode(): value.encode() for name, value in case.headers.items()}
    one = account("generic", *(decode_secret(secret) for secret in case.secrets))
    return (
        ENTRANCES["generic"].check(Post(url="", headers=headers, body=case.body), one, now_s)
        is Signature.GOOD
    )


def standard_theirs(judge: Judge, case: StandardCase) -> Any:
    return judge.ask("standard_signature", body=case.body, secrets=list(case.secrets), headers=case.headers)


def clock() -> int:
    """The library knows no other clock."""
    return int(time.time())  # noqa: TID251


def test_the_library_of_standard_webhooks_and_ours_agree(judge: Judge) -> None:
    said: Counter[bool] = Counter()
    now_s = clock()
    for case in standard_cases(5, now_s=now_s, most=500):
        theirs = standard_theirs(judge, case)
        assert standard_ours(case, now_s=now_s) is theirs, case
        said[theirs] += 1
    assert min(said[True], said[False]) > 100


def signed(
    *, id_: str = "msg_1", at: str | None = None, body: bytes = b"{}", shown: str | None = None
) -> StandardCase:
    at = at or str(clock())
    signature = standard_signed(body, SECRET, id_, at.partition(".")[0])
    return StandardCase(body=body, secrets=(SECRET,), headers={
        "webhook-id": id_, "webhook-timestamp": shown or at, "webhook-signature": signature})  # fmt: skip


FAULTS: dict[str, tuple[Any, Any, bool]] = {
    "a part without a comma: it raises, we read the others": (
        lambda: _noted(signed(), "garbage "), {"raised": "ValueError"}, True),
    "a body that is no UTF-8: it raises, we check bytes": (
        lambda: signed(body=b"\xff"), {"raised": "UnicodeDecodeError"}, True),
    "half a second in the timestamp: it takes it, the specification knows whole ones": (
        lambda: signed(at=f"{clock()}.5"), True, False),
    "a timestamp as a power: the same": (
        lambda: signed(shown=f"{clock()}e0"), True, False),
    "letters outside base64 in a signature: it skips them, we compare what was sent": (
        lambda: _noted(signed(), "v1,!!!"), True, False),
    "a dot in the id: it takes it, though id and timestamp then run together": (
        lambda: signed(id_="msg.1"), True, False),
}  # fmt: skip


def _noted(case: StandardCase, before: str) -> StandardCase:
    given = case.headers["webhook-signature"]
    joined = before + given if before.endswith(" ") else before + given.removeprefix("v1,")
    return StandardCase(
        body=case.body, secrets=case.secrets, headers=case.headers | {"webhook-signature": joined}
    )


@pytest.mark.parametrize(("make", "theirs", "ours"), FAULTS.values(), ids=FAULTS)
def test_a_fault_of_the_library_that_is_not_ours(judge: Judge, make: Any, theirs: Any, ours: bool) -> None:
    case = make()
    assert standard_theirs(judge, case) == theirs
    assert standard_ours(case, now_s=clock()) is ours
