"""Signatures by Standard Webhooks: the official vector, the official library as judge, and everything that is not one."""

import base64
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from shared.signing import SIGNATURES_MAX_CHARS, TOLERANCE_S, Signature, check, decode_secret, sign

SECRET = "whsec_" + base64.b64encode(b"a secret of thirty-two bytes ...").decode()
OLD_SECRET = "whsec_" + base64.b64encode(b"the secret that was used before.").decode()
KEY, OLD_KEY = decode_secret(SECRET), decode_secret(OLD_SECRET)
NOW = 1_796_300_000
BODY = b'{"type":"message.received","data":{"text":"Bun\xc4\x83"}}'


def headers(
    *,
    id_: str = "msg_1",
    at: int | str = NOW,
    signature: str | None = None,
    body: bytes = BODY,
    key: bytes = KEY,
) -> dict[bytes, bytes]:
    signature = sign(key, id_, int(at), body) if signature is None else signature
    return {
        b"webhook-id": id_.encode(),
        b"webhook-timestamp": str(at).encode(),
        b"webhook-signature": signature.encode(),
    }


def checked(given: dict[bytes, bytes], body: bytes = BODY, *keys: bytes, now_s: float = NOW) -> Signature:
    return check(given, body, keys or (KEY,), now_s=now_s)


def test_the_official_vector() -> None:
    key = decode_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    id_, at, body = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, b'{"test": 2432232314}'
    signature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert sign(key, id_, at, body) == signature
    assert checked(headers(id_=id_, at=at, signature=signature), body, key, now_s=at) is Signature.GOOD


@given(
    body=st.text().map(lambda text: json.dumps({"text": text}).encode()),
    id_=st.from_regex(r"[A-Za-z0-9_]{1,40}", fullmatch=True),
)
def test_what_we_sign_the_library_accepts(*, body: bytes, id_: str) -> None:
    at = int(datetime.now(UTC).timestamp())  # noqa: TID251  the library asks the system's clock
    signed = {name.decode(): value.decode() for name, value in headers(id_=id_, at=at, body=body).items()}
    assert Webhook(SECRET).verify(body, signed) == json.loads(body)


@given(st.text().map(json.dumps))
def test_what_the_library_signs_we_accept(body: str) -> None:
    signature = Webhook(SECRET).sign("msg_1", datetime.fromtimestamp(NOW, UTC), body)
    assert checked(headers(signature=signature), body.encode()) is Signature.GOOD


@given(at=st.integers(0, len(BODY) - 1), bit=st.integers(0, 7))
def test_one_bit_of_the_body_makes_it_wrong_here_and_in_the_library(*, at: int, bit: int) -> None:
    changed = bytearray(BODY)
    changed[at] ^= 1 << bit
    assert checked(headers(), bytes(changed)) is Signature.WRONG


def test_the_library_refuses_what_we_refuse() -> None:
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(
            BODY + b" ", {name.decode(): value.decode() for name, value in headers().items()}
        )
    assert checked(headers(), BODY + b" ") is Signature.WRONG


CASES = [
    # what, headers, result
    ("good", headers(), Signature.GOOD),
    ("among unknown versions and other keys", headers(signature=f"v1a,AAAA {sign(OLD_KEY, 'msg_1', NOW, BODY)} {sign(KEY, 'msg_1', NOW, BODY)}"),
     Signature.GOOD),
    ("by the old key alone", headers(key=OLD_KEY), Signature.WRONG),
    ("of another version alone", headers(signature="v1a," + sign(KEY, "msg_1", NOW, BODY)[3:]), Signature.WRONG),
    ("without a version", headers(signature=sign(KEY, "msg_1", NOW, BODY)[3:]), Signature.WRONG),
    ("of another id", headers(id_="msg_2", signature=sign(KEY, "msg_1", NOW, BODY)), Signature.WRONG),
    ("of another time", headers(at=NOW - 1, signature=sign(KEY, "msg_1", NOW, BODY)), Signature.WRONG),
    ("garbage", headers(signature="garbage"), Signature.WRONG),
    ("a comma", headers(signature=","), Signature.WRONG),
    ("bytes that are no ASCII", headers(signature="v1,\u00e9\u4e2d"), Signature.WRONG),
    ("empty", headers(signature=""), Signature.WRONG),
    ("spaces", headers(signature="   "), Signature.WRONG),
    ("prefix of the right one", headers(signature=sign(KEY, "msg_1", NOW, BODY)[:-2]), Signature.WRONG),
    ("too many", headers(signature="v1,AAAA " * SIGNATURES_MAX_CHARS), Signature.WRONG),
    ("no id", headers(id_=""), Signature.MISSING),
    ("an id with a dot", headers(id_="msg.1"), Signature.MISSING),
    ("an id with a space", headers(id_="msg 1"), Signature.MISSING),
    ("an id with a new line", headers(id_="msg_1\n"), Signature.MISSING),
    ("an id too long", headers(id_="x" * 129), Signature.MISSING),
    ("the longest id", headers(id_="x" * 128), Signature.GOOD),
    ("no time", headers(at="", signature="v1,x"), Signature.MISSING),
    ("a time with a fraction", headers(at="1796300000.0", signature="v1,x"), Signature.MISSING),
    ("a time with a sign", headers(at="+1796300000", signature="v1,x"), Signature.MISSING),
    ("a time with an underscore", headers(at="1_796_300_000", signature="v1,x"), Signature.MISSING),
    ("a time in other digits", headers(at="\u0661\u0662", signature="v1,x"), Signature.MISSING),
    ("a time of a thousand digits", headers(at="9" * 1000, signature="v1,x"), Signature.MISSING),
    ("five minutes old", headers(at=NOW - TOLERANCE_S), Signature.GOOD),
    ("five minutes ahead", headers(at=NOW + TOLERANCE_S), Signature.GOOD),
    ("older", headers(at=NOW - TOLERANCE_S - 1), Signature.OUTSIDE_TOLERANCE),
    ("further ahead", headers(at=NOW + TOLERANCE_S + 1), Signature.OUTSIDE_TOLERANCE),
]  # fmt: skip


@pytest.mark.parametrize(
    ("given_headers", "result"), [row[1:] for row in CASES], ids=[row[0] for row in CASES]
)
def test_a_signature(given_headers: dict[bytes, bytes], result: Signature) -> None:
    assert checked(given_headers) is result


@pytest.mark.parametrize("missing", [b"webhook-id", b"webhook-timestamp", b"webhook-signature"])
def test_a_header_that_is_missing(missing: bytes) -> None:
    given_headers = headers()
    del given_headers[missing]
    wanted = Signature.WRONG if missing == b"webhook-signature" else Signature.MISSING
    assert checked(given_headers) is wanted


def test_during_a_rotation_either_key_will_do() -> None:
    for key in (KEY, OLD_KEY):
        assert checked(headers(key=key), BODY, KEY, OLD_KEY) is Signature.GOOD


def test_an_account_without_keys_accepts_nothing() -> None:
    assert check(headers(), BODY, (), now_s=NOW) is Signature.WRONG
    assert check(headers(key=b""), BODY, (), now_s=NOW) is Signature.WRONG


@given(
    st.dictionaries(
        st.sampled_from([b"webhook-id", b"webhook-timestamp", b"webhook-signature"]), st.binary(max_size=200)
    ),
    st.binary(),
)
def test_no_rubbish_is_good_or_an_error(given_headers: dict[bytes, bytes], body: bytes) -> None:
    assert checked(given_headers, body) is not Signature.GOOD


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "whsec_",
        "whsec_not base64!",
        "whsec_" + base64.b64encode(b"x" * 23).decode(),
        "whsec_" + base64.b64encode(b"x" * 65).decode(),
        SECRET + "\n",
        "whsec_é",
    ],
)
def test_a_secret_that_is_none_is_refused(secret: str) -> None:
    with pytest.raises(ValueError, match="a secret is"):
        decode_secret(secret)


@pytest.mark.parametrize("length", [24, 32, 64])
def test_a_secret_is_read_with_or_without_its_prefix(length: int) -> None:
    key = bytes(range(length))
    text = base64.b64encode(key).decode()
    assert decode_secret(f"whsec_{text}") == decode_secret(text) == key
