"""The mock model's opening hours, from a result whose keys came back in the order of the alphabet."""

import json

import pytest

from packs.clinic.mock_words import result
from shared.llm.port import ToolResult

DAY, FRIDAY = ["09:00-13:00", "14:00-18:00"], ["09:00-17:00"]


@pytest.mark.parametrize("sort_keys", [False, True])
def test_hours_are_said_from_monday_on_whatever_their_order(sort_keys: bool) -> None:
    hours = {"Monday": DAY, "Tuesday": DAY, "Wednesday": DAY, "Thursday": DAY, "Friday": FRIDAY, "Saturday": [], "Sunday": []}  # fmt: skip
    data = {"hours": hours, "address": "", "phone": "", "currency": "RON", "services": [], "dentists": []}
    told = ToolResult(call_id="call_1", name="get_clinic_info", content=json.dumps(data, sort_keys=sort_keys))
    said = result(told, "What are your opening hours?", "en")
    assert "Monday – Thursday 09:00-13:00, 14:00-18:00; Friday 09:00-17:00" in said


def test_hours_in_one_language_are_said_in_another() -> None:
    names = ["luni", "marți", "miercuri", "joi", "vineri", "sâmbătă", "duminică"]
    hours = {key: [] for key in names} | {"joi": DAY}
    data = {"hours": hours, "address": "", "phone": "", "currency": "RON", "services": [], "dentists": []}
    told = ToolResult(call_id="call_1", name="get_clinic_info", content=json.dumps(data, sort_keys=True))
    assert "Thursday 09:00-13:00, 14:00-18:00" in result(told, "opening hours", "en")
