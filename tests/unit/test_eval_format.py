"""Scripts as files: what is wrong is told by file and line, and what ships is whole."""

import json
import re
from pathlib import Path

import jsonschema_rs
import pytest
from ruamel.yaml import YAML

from leeway.evals.expected import End, Expect
from leeway.evals.reading import BadScript, folder_of, load_all, load_folder, read_fixture, read_script
from leeway.evals.schema import FILE, schema
from leeway.evals.script import ACTIONS, FIRST_GROUPS, MODEL_GROUPS, Changes, Script, Step
from shared.packs import load_packs

PACKS = load_packs()
FIRST = {
    "booking": [f"bk-{n:02}" for n in range(1, 6)],
    "cancel": [f"cn-{n:02}" for n in range(1, 4)],
    "identity": [f"id-{n:02}" for n in range(1, 6)],
    "injection": [f"in-{n:02}" for n in range(1, 4)],
    "loop_dedup": [f"ld-{n:02}" for n in range(1, 6)],
    "autonomy": [f"au-{n:02}" for n in range(1, 5)],
}
WHOLE = """\
id: t-01
title: A test
group: test
customers:
  ana: {name: Ana Pop}
steps:
  - say: Hello
    expect: {reply: sent}
"""


def written(tmp_path: Path, text: str, name: str = "t-01.yaml") -> Path:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


WRONG = {
    "no YAML": ("id: [", 1, "expected the node content"),
    "a list": ("- one\n", 1, "is not a mapping"),
    "an unknown field": (WHOLE + "flavour: mint\n", 9, "flavour: Extra inputs"),
    "an unknown check": (WHOLE.replace("{reply: sent}", "{answer: sent}"), 8, "steps.0.expect.answer"),
    "an unknown kind of reply": (WHOLE.replace("sent", "shouted"), 8, "steps.0.expect.reply"),
    "a step that does nothing": (WHOLE.replace("- say: Hello", "- from: ana"), 7, "a step does one thing"),
    "a step that does two things": (
        WHOLE.replace("- say: Hello", "- say: Hello\n    wait: 5m"),
        7,
        "this does say and wait",
    ),
    "a duration that is none": (WHOLE.replace("- say: Hello", "- wait: soon"), 7, "steps.0.wait"),
    "a customer nobody knows": (
        WHOLE.replace("- say: Hello", "- say: Hello\n    from: bob"),
        1,
        "no customer is called bob",
    ),
    "a row of a customer nobody knows": (
        WHOLE + "store: {appointments: [{customer: bob}]}\n",
        1,
        "no customer is called bob",
    ),
    "a row that is changed and was never there": (
        WHOLE + "  - staff: {change: {appointments: [{id: monday, state: cancelled}]}}\n",
        1,
        "staff change monday",
    ),
    "a level that is none": (WHOLE + "settings: {levels: {book_appointment: 7}}\n", 9, "settings.levels"),
    "an id out of form": (WHOLE.replace("t-01", "T 01"), 1, "id: "),
    "a time that is none": (WHOLE + "clock: 2026-13-03T10:00\n", 9, "clock: "),
    "a pending action without a tool": (
        WHOLE.replace("{reply: sent}", "{pending: {step: 1}}"),
        8,
        "steps.0.expect.pending.Pending.tool",
    ),
    "an answer that is none": (
        WHOLE.replace("- say: Hello", "- say: Hello\n    answers: [{speech: hi}]"),
        8,
        "no scripted answer",
    ),
    "answers in a group about models": (
        WHOLE.replace("group: test", "group: booking").replace(
            "- say: Hello", "- say: Hello\n    answers: [{text: hi}]"
        ),
        1,
        "runs against models",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_told_by_file_and_line(tmp_path: Path, wrong: str) -> None:
    text, line, what = WRONG[wrong]
    path = written(tmp_path, text)
    with pytest.raises(BadScript) as told:
        read_script(path)
    assert str(told.value).startswith(f"{path}:{line}: "), str(told.value)
    assert what in str(told.value)
    assert "\n" not in str(told.value)


def test_a_script_is_read_with_what_is_usual(tmp_path: Path) -> None:
    script = read_script(written(tmp_path, WHOLE))
    assert (script.pack, script.clock, script.pace.total_seconds()) == ("clinic", "2026-12-03T10:00", 20)
    assert script.first_customer == "ana"


def test_words_that_look_like_switches_are_words(tmp_path: Path) -> None:
    """YAML 1.1 took a customer's "no" for a boolean."""
    assert read_script(written(tmp_path, WHOLE.replace("Hello", "no"))).steps[0].say == "no"


def test_a_file_without_end_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(BadScript, match="longer than"):
        read_script(written(tmp_path, "#" * 300_000))


def test_a_fixture_s_answers_are_read_too(tmp_path: Path) -> None:
    path = written(tmp_path, "script: t-01\nanswers:\n  1:\n    - {text: hi}\n    - {finish: never}\n")
    with pytest.raises(BadScript, match=r":5: no scripted answer"):
        read_fixture(path)


def test_a_fixture_beside_no_script_is_told(tmp_path: Path) -> None:
    written(tmp_path, WHOLE)
    written(tmp_path, "script: t-02\nanswers: {}\n", "replay/t-02.yaml")
    with pytest.raises(BadScript, match="no script of that file name"):
        load_folder(tmp_path)


def test_a_fixture_of_another_script_is_told(tmp_path: Path) -> None:
    written(tmp_path, WHOLE)
    written(tmp_path, "script: t-02\nanswers: {}\n", "replay/t-01.yaml")
    with pytest.raises(BadScript, match="is beside script t-01, and says t-02"):
        load_folder(tmp_path)


def test_two_scripts_of_one_id_are_told(tmp_path: Path) -> None:
    written(tmp_path, WHOLE)
    written(tmp_path, WHOLE, "t-02.yaml")
    with pytest.raises(BadScript, match="has the id t-01 already"):
        load_all(PACKS, [tmp_path])


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (WHOLE + "pack: bakery\n", "no installed pack is called bakery"),
        (WHOLE + "settings: {levels: {bake: 3}}\n", "has no tool bake"),
        (WHOLE + "store: {loaves: [{customer: ana}]}\n", "store.sql of pack clinic has no add_loaves"),
        (WHOLE + "end: {store: {loaves: {ana: []}}}\n", "has no all_loaves"),
        (WHOLE + "end: {counts: {loaves: 1}}\n", "has no all_loaves"),
        (
            WHOLE
            + "  - staff: {change: {patients: [{id: x}]}}\nstore: {appointments: [{id: x, customer: ana}]}\n",
            "has no change_patients",
        ),
    ],
)
def test_a_pack_or_tool_that_is_not_there_is_told(tmp_path: Path, text: str, what: str) -> None:
    written(tmp_path, text)
    with pytest.raises(BadScript, match=what):
        load_all(PACKS, [tmp_path])


def test_a_folder_without_scripts_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadScript, match="No scripts in"):
        load_all(PACKS, [tmp_path])
    with pytest.raises(BadScript, match="is no folder"):
        load_all(PACKS, [tmp_path / "none"])


# What ships


def test_the_schema_is_made_of_the_form() -> None:
    assert FILE.read_text(encoding="utf-8") == schema(), "python -m leeway.evals.schema writes it anew"


def test_the_first_25_are_there_each_with_its_answers_and_two_that_must_fail() -> None:
    loaded = {one.script.id: one for one in load_folder(folder_of(PACKS["clinic"]))}
    for group, ids in FIRST.items():
        found = [
            one.script.id
            for one in loaded.values()
            if one.script.group == group and not one.script.deliberate
        ]
        assert sorted(found) == ids, group
        assert all(loaded[id_].fixture for id_ in ids)
    deliberate = [one for one in loaded.values() if one.script.deliberate]
    assert len(deliberate) == 2
    assert all(one.fixture and one.path.parent.name == "deliberate" for one in deliberate)
    assert set(FIRST) == set(FIRST_GROUPS)
    assert sum(len(FIRST[group]) for group in MODEL_GROUPS) == 16


def test_a_script_s_file_has_its_id() -> None:
    assert all(one.path.stem == one.script.id for one in load_all(PACKS))


VALIDATOR = jsonschema_rs.validator_for(json.loads(schema()))


def test_every_script_fits_the_schema() -> None:
    for one in load_all(PACKS):
        content = json.loads(
            json.dumps(YAML(typ="safe", pure=True).load(one.path.read_text(encoding="utf-8")))
        )
        assert VALIDATOR.is_valid(content), one.path


@pytest.mark.parametrize(
    "step",
    [{"say": "Hi", "wait": "5m"}, {"from": "ana"}, {"shout": "Hi"}, {"wait": "soon"}, {"press": "maybe"}],
    ids=str,
)
def test_the_schema_refuses_what_the_reader_refuses(step: dict[str, str]) -> None:
    whole = {"id": "t-01", "title": "A test", "group": "test"}
    assert VALIDATOR.is_valid(whole | {"steps": [{"say": "Hi"}]})
    assert not VALIDATOR.is_valid(whole | {"steps": [step]})


def test_the_page_about_scripts_names_every_field() -> None:
    page = (Path(__file__).parents[2] / "docs/scripts.md").read_text(encoding="utf-8")
    words = set(re.findall(r"[a-z0-9_]+", page))
    fields = {
        *Script.model_fields,
        *Step.model_fields,
        *Expect.model_fields,
        *End.model_fields,
        *Changes.model_fields,
        *ACTIONS,
    }
    assert not {name.rstrip("_") for name in fields} - words
