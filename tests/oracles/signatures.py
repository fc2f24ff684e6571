"""Requests as providers sign them and as forgers spoil them, from a seed: what we check and what the vendors' own code checks."""

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from urllib.parse import quote_plus, urlencode

FORM = "application/x-www-form-urlencoded; charset=UTF-8"
WORDS = ("Hello", "", " ", "a b", "trailing ", "Bună ziua, aș vrea marți", "👍🏽", "x=1&y=2", "50%+50%", "line\nline", "\u202eabc", "שלום", "'\"<>")  # fmt: skip
NAMES = (
    "Body",
    "From",
    "To",
    "FromCity",
    "FromZip",
    "NumMedia",
    "MessageSid",
    "AccountSid",
    "Ω",
    "a",
    "B",
    "b",
    "ab",
)
PLACES = (
    "/hooks/twilio/acme",
    "/hooks/twilio/acme?v=1",
    "/hooks/twilio/acme?blank=&v=%20x+y",
    "/hooks/twilio/acme/status?oid=0190f0e2-0000-7000-8000-000000000001",
    "/hooks/twilio/%C8%99",
)
HOSTS = ("https://agent.example.test", "https://agent.example.test:443", "https://agent.example.test:8443", "http://agent.example.test", "http://agent.example.test:80")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TwilioCase:
    """A request of Twilio's, as it arrives. `key` and `algorithm` are the receiver's."""

    url: str
    body: bytes
    content_type: str
    signature: str
    key: str
    algorithm: str
    form: list[list[str]] | None = None  # as a web framework would read it; None: the body is no form


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaCase:
    """A request of Meta's, as it arrives."""

    body: bytes
    signature: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StandardCase:
    """A request by Standard Webhooks, as it arrives."""

    body: bytes
    secrets: tuple[str, ...]
    headers: dict[str, str] = field(default_factory=dict)


def twilio_signed(url: str, pairs: list[tuple[str, str]], key: str, algorithm: str) -> str:
    """By Twilio's "Webhooks security": the URL and every different parameter, sorted, nothing between."""
    text = url + "".join(name + value for name, value in sorted(set(pairs)))
    digest = {"sha1": hashlib.sha1, "sha256": hashlib.sha256}[algorithm]
    return base64.b64encode(hmac.new(key.encode(), text.encode(), digest).digest()).decode()


def meta_signed(body: bytes, key: str) -> str:
    return "sha256=" + hmac.new(key.encode(), body, hashlib.sha256).hexdigest()


def standard_signed(body: bytes, secret: str, id_: str, at: str) -> str:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    return (
        "v1,"
        + base64.b64encode(hmac.new(key, f"{id_}.{at}.".encode() + body, hashlib.sha256).digest()).decode()
    )


def twilio_cases(seed: int, *, most: int) -> Iterator[TwilioCase]:
    """One in two as it was signed, the others spoiled in one way each."""
    chance = Random(seed)
    for _ in range(most):
        case = _twilio_json(chance) if chance.random() < 0.25 else _twilio_form(chance)
        yield case if chance.random() < 0.5 else _spoiled_twilio(case, chance)


def _twilio_form(chance: Random) -> TwilioCase:
    url, key, algorithm = _called(chance)
    pairs = [(chance.choice(NAMES), chance.choice(WORDS)) for _ in range(chance.randrange(1, 12))]
    pairs += chance.choices(pairs, k=chance.choice((0, 0, 1)))  # the same field with the same value twice
    return TwilioCase(
        url=url,
        body=urlencode(pairs).encode(),
        content_type=chance.choice((FORM, "application/x-www-form-urlencoded", FORM.upper())),
        signature=twilio_signed(_as_signed(url, chance), pairs, key, algorithm),
        key=key,
        algorithm=algorithm,
        form=[list(pair) for pair in pairs],
    )


def _twilio_json(chance: Random) -> TwilioCase:
    url, key, algorithm = _called(chance)
    body = json.dumps({"text": chance.choice(WORDS)}, ensure_ascii=chance.random() < 0.5).encode()
    url += ("&" if "?" in url else "?") + "bodySHA256=" + hashlib.sha256(body).hexdigest()
    signature = twilio_signed(_as_signed(url, chance), [], key, algorithm)
    return TwilioCase(url=url, body=body, content_type="application/json", signature=signature, key=key, algorithm=algorithm)  # fmt: skip


def _called(chance: Random) -> tuple[str, str, str]:
    return chance.choice(HOSTS) + chance.choice(PLACES), chance.choice(("token-1", "token-ș", "x" * 90)), chance.choice(("sha1", "sha256"))  # fmt: skip


def _as_signed(url: str, chance: Random) -> str:
    """Twilio signs with or without the port."""
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    name, _, port = host.partition(":")
    usual = {"https": "443", "http": "80"}[scheme]
    hosts = [host, name] if port else [host, f"{host}:{usual}"]
    return f"{scheme}://{chance.choice(hosts)}{slash}{path}"


def _spoiled_twilio(case: TwilioCase, chance: Random) -> TwilioCase:
    ways = [
        lambda: replace(case, signature=_one_letter_else(case.signature, chance)),
        lambda: replace(case, signature=""),
        lambda: replace(case, signature=case.signature + "="),
        lambda: replace(case, key=case.key + "x"),
        lambda: replace(case, algorithm="sha256" if case.algorithm == "sha1" else "sha1"),
        lambda: replace(case, url=case.url + "x"),
        lambda: replace(case, url=case.url.replace("agent.", "other.")),
        lambda: replace(case, url=case.url.replace("https:", "ftp:").replace("http:", "https:").replace("ftp:", "http:")),
    ]  # fmt: skip
    if case.form is None:
        ways.append(lambda: replace(case, body=case.body + b" "))
    else:
        ways += [partial(_with_form, case, form) for form in _spoiled_forms(case.form)]
    return chance.choice(ways)()


def _spoiled_forms(form: list[list[str]]) -> list[list[list[str]]]:
    (name, value), *others = form
    return [
        [[name, value + "x"], *others],
        [["Surplus", ""], *form],
        [*form, [name, "twice"]],
        [pair for pair in form if pair[1]],
        [[one, text.strip()] for one, text in form],
        others,
    ]


def _with_form(case: TwilioCase, form: list[list[str]]) -> TwilioCase:
    body = "&".join(f"{quote_plus(name)}={quote_plus(value)}" for name, value in form).encode()
    return replace(case, form=form, body=body)


def _one_letter_else(text: str, chance: Random) -> str:
    at = chance.randrange(len(text))
    return text[:at] + chance.choice([one for one in "Ab3/" if one != text[at]]) + text[at + 1 :]


def meta_cases(seed: int, *, most: int) -> Iterator[MetaCase]:
    """One in two as it was signed, the others spoiled in one way each."""
    chance = Random(seed)
    for _ in range(most):
        content = {"object": "whatsapp_business_account", "entry": [chance.choice(WORDS)]}
        body = json.dumps(content, ensure_ascii=chance.random() < 0.5).encode() + chance.choice(
            (b"", b"\n", b"\xff")
        )
        key = chance.choice(("app-secret-1", "ș" * 9))
        case = MetaCase(body=body, signature=meta_signed(body, key), key=key)
        yield (
            case
            if chance.random() < 0.5
            else chance.choice(
                [
                    replace(case, body=body + b" "),
                    replace(case, body=json.dumps(json.loads(body.rstrip(b"\n\xff")), indent=1).encode()),
                    replace(case, key=key + "x"),
                    replace(case, signature=case.signature[:-1]),
                    replace(case, signature=""),
                    replace(case, signature="sha256="),
                    replace(case, signature=_digit_else(case.signature)),
                    replace(case, signature="sha1=" + hmac.new(key.encode(), body, hashlib.sha1).hexdigest()),
                ]
            )
        )


def _digit_else(signature: str) -> str:
    return signature[:-1] + ("0" if signature[-1] != "0" else "1")


def standard_cases(seed: int, *, now_s: int, most: int) -> Iterator[StandardCase]:
    """Three in five as they were signed, the others spoiled in one way each."""
    chance = Random(seed)
    for _ in range(most):
        secrets = tuple("whsec_" + base64.b64encode(chance.randbytes(chance.randrange(24, 65))).decode() for _ in range(2))  # fmt: skip
        body = json.dumps({"text": chance.choice(WORDS)}, ensure_ascii=chance.random() < 0.5).encode()
        id_, at = f"msg_{chance.randrange(10**9)}", str(now_s + chance.choice((0, -200, 200, 290, -290)))
        mine = standard_signed(body, chance.choice(secrets), id_, at)
        others = ["v1a,AAAA", "v1," + base64.b64encode(chance.randbytes(32)).decode(), "v2,x"]
        listed = [mine, *chance.sample(others, k=chance.randrange(3))]
        chance.shuffle(listed)
        headers = {"webhook-id": id_, "webhook-timestamp": at, "webhook-signature": " ".join(listed)}
        case = StandardCase(body=body, secrets=secrets, headers=headers)
        yield case if chance.random() < 0.6 else chance.choice(_spoiled_standard(case, id_, now_s, mine))


def _spoiled_standard(case: StandardCase, id_: str, now_s: int, mine: str) -> list[StandardCase]:
    def told(**changed: str) -> StandardCase:
        return replace(
            case, headers=case.headers | {name.replace("_", "-"): value for name, value in changed.items()}
        )

    def dated(at: int) -> StandardCase:
        signed = standard_signed(case.body, case.secrets[0], id_, str(at))
        return told(webhook_timestamp=str(at), webhook_signature=signed)

    return [
        replace(case, body=case.body + b" "),
        replace(case, secrets=("whsec_" + base64.b64encode(b"z" * 32).decode(),)),
        *(replace(case, headers={name: value for name, value in case.headers.items() if name != left}) for left in case.headers),
        told(webhook_id=id_ + "x"),
        told(webhook_id=""),
        told(webhook_timestamp=str(now_s - 1)),
        told(webhook_timestamp="soon"),
        told(webhook_signature="v1a," + mine[3:]),
        told(webhook_signature="v1," + base64.b64encode(b"q" * 32).decode()),
        told(webhook_signature=""),
        dated(now_s - 400),
        dated(now_s + 400),
    ]  # fmt: skip
