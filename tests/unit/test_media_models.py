"""What models are given besides text: on both wires, reserved for, and refused at start where a provider takes none."""

import base64
from typing import Any

import pytest
from openai.types.chat import ChatCompletionContentPartImageParam, ChatCompletionContentPartInputAudioParam
from openai.types.responses import ResponseInputAudioParam, ResponseInputImageParam
from pydantic import TypeAdapter

from shared.errors import Misconfigured
from shared.llm import chat_wire, responses_wire
from shared.llm.configured import media_types
from shared.llm.costs import AUDIO_TOKENS_MAX, IMAGE_TOKENS_MAX, tokens
from shared.llm.mock import MARKER, MockModel
from shared.llm.port import Request, UserMedia
from shared.media import TYPES, Medium
from shared.messages import PartKind
from shared.settings import Settings, load_settings

AUDIO = UserMedia(text="Write it down.", content=b"ID3sound", mime="audio/mpeg")
IMAGE = UserMedia(text="Describe it.", content=b"\xff\xd8\xff", mime="image/jpeg")


def request(media: UserMedia) -> Request:
    return Request(system="", messages=(media,), tools=())


def content_of(message: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    told, carried = message["content"]
    return told, carried


@pytest.mark.parametrize(
    ("media", "form"),
    [(AUDIO, ChatCompletionContentPartInputAudioParam), (IMAGE, ChatCompletionContentPartImageParam)],
)
def test_chat_completions_get_it_in_the_clients_form(media: UserMedia, form: Any) -> None:
    *_, message = chat_wire.messages_out(request(media))
    told, carried = content_of(message)
    assert told == {"type": "text", "text": media.text}
    TypeAdapter(form).validate_python(carried)
    assert base64.b64encode(media.content).decode() in str(carried)


@pytest.mark.parametrize(
    ("media", "form"), [(AUDIO, ResponseInputAudioParam), (IMAGE, ResponseInputImageParam)]
)
def test_responses_get_it_in_the_clients_form(media: UserMedia, form: Any) -> None:
    (message,) = responses_wire.items_out(request(media))
    told, carried = content_of(message)
    assert told == {"type": "input_text", "text": media.text}
    TypeAdapter(form).validate_python(carried)
    assert base64.b64encode(media.content).decode() in str(carried)


def test_a_picture_is_a_data_url() -> None:
    *_, message = chat_wire.messages_out(request(IMAGE))
    assert message["content"][1]["image_url"]["url"] == "data:image/jpeg;base64,/9j/"


def test_what_is_reserved_has_room_for_the_longest() -> None:
    assert tokens(request(AUDIO)) > AUDIO_TOKENS_MAX
    assert AUDIO_TOKENS_MAX > tokens(request(IMAGE)) > IMAGE_TOKENS_MAX


async def test_the_mock_hears_what_stands_behind_the_marker() -> None:
    marked = UserMedia(text="", content=b"OggS\0" + MARKER + "mâine la 10".encode(), mime="audio/ogg")
    model = MockModel({})
    assert (await model.complete(request(marked), timeout_s=1)).text == "mâine la 10"
    assert (await model.complete(request(AUDIO), timeout_s=1)).text == ""


def settings(llm: str, media: str) -> Settings:
    return load_settings(llm=llm, media=media, _env_file=None)


@pytest.mark.parametrize(
    ("told", "media"),
    [("", set()), ("audio", {Medium.AUDIO}), (" Images, audio ,", {Medium.AUDIO, Medium.IMAGES})],
)
def test_the_setting_is_a_list(told: str, media: set[Medium]) -> None:
    assert settings("mock", told).media == media


@pytest.mark.parametrize("told", ["video", "audio images", "audio,videos"])
def test_another_word_in_it_is_refused(told: str) -> None:
    with pytest.raises(Misconfigured, match="LEEWAY_MEDIA"):
        settings("mock", told)


@pytest.mark.parametrize(
    ("llm", "media"),
    [("deepseek:x", "audio"), ("deepseek:x", "images"), ("anthropic:x", "audio"), ("anthropic:x", "audio,images")],
)  # fmt: skip
def test_a_provider_that_takes_none_is_refused_at_start(llm: str, media: str) -> None:
    with pytest.raises(Misconfigured, match="does not take"):
        media_types(settings(llm, media))


def test_types_are_those_that_the_provider_takes() -> None:
    assert media_types(settings("deepseek:x", "")) == frozenset()
    assert media_types(settings("anthropic:x", "images")) == TYPES[PartKind.IMAGE]
    assert "audio/ogg" not in media_types(settings("openai:x", "audio"))
    assert "audio/ogg" in media_types(settings("gemini:x", "audio"))
    assert media_types(settings("mock", "audio")) == TYPES[PartKind.AUDIO]
