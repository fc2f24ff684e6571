"""What the bench tells: ratios of single rounds, goals of both columns, and the same as plain values."""

import pytest

from tests.bench import ratios
from tests.bench.as_json import as_json
from tests.bench.model import Pace, Report, Result, Sample, rate_between
from tests.bench.ratios import at_least, at_most, lines


def sample(name: str, rate: float, *, cpu_us: float = 100.0, p95_ms: float = 10.0) -> Sample:
    pace = Pace("20/s", 20, 80, p95_ms / 2, p95_ms)
    return Sample(name, rate, cpu_us, cpu_us, 0, 0, (pace,))


def report(*results: Result, figures: dict[str, float] | None = None) -> Report:
    return Report(results=results, figures=figures or {}, failures=(), seconds=1, servers="none")


def result(name: str, *samples: Sample) -> Result:
    return Result(name, "messages", samples)


@pytest.mark.parametrize(
    ("goal", "value", "met"),
    [
        (at_least(0.5), 0.5, True),
        (at_least(0.5), 0.49, False),
        (at_most(60), 60, True),
        (at_most(60), 60.1, False),
        (at_most(0), 0, True),
    ],
)
def test_a_goal_is_met_on_its_side_and_on_the_line(goal: ratios.Goal, value: float, met: bool) -> None:
    assert goal.met(value) is met


def test_a_ratio_is_the_median_of_single_rounds_not_the_ratio_of_medians() -> None:
    leeway = result(ratios.LEEWAY, *(sample(ratios.LEEWAY, rate) for rate in (100, 400, 300)))
    floor = result(ratios.FLOOR, *(sample(ratios.FLOOR, rate) for rate in (1_000, 1_000, 3_000)))
    told = {line.what: line.value for line in lines(report(leeway, floor))}
    assert told["Leeway ÷ floor, rate"] == pytest.approx(0.1)


def test_the_best_peer_is_the_fastest_for_rates_and_the_thriftiest_for_cpu() -> None:
    fast, thrifty = ratios.PEERS[0], ratios.PEERS[1]
    told = {
        line.number: line.value
        for line in lines(
            report(
                result(ratios.LEEWAY, sample(ratios.LEEWAY, 1_000, cpu_us=500)),
                result(fast, sample(fast, 250, cpu_us=4_000)),
                result(thrifty, sample(thrifty, 100, cpu_us=2_000)),
            )
        )
    }
    assert told == {"P2": pytest.approx(4), "P3": pytest.approx(0.25)}


def test_what_was_not_measured_has_no_line() -> None:
    assert list(lines(report())) == []


def test_lines_come_in_the_order_of_the_document_with_what_has_no_number_last() -> None:
    figures = {ratios.REST_RSS.format("agent"): 60.0, ratios.STALL_S: 0.8, ratios.OVERHEAD_MS: 30.0}
    told = [line.number for line in lines(report(figures=figures))]
    assert told == ["P5", "P7", "–"]


def test_json_says_of_each_column_whether_it_is_reached() -> None:
    (line,) = as_json(report(figures={ratios.STALL_S: 2.0}))["ratios"]
    assert line["pipeline_issue"] == {"sign": "≤", "value": 5, "met": True}
    assert line["in_the_end"] == {"sign": "≤", "value": 1, "met": False}


def test_every_figure_of_a_trial_has_a_line() -> None:
    names = {rule.figure for rule in ratios.FIGURES}
    assert {ratios.OVERHEAD_MS, ratios.TURNS_RATE, ratios.VIOLATIONS, ratios.STALL_S} <= names
    assert {ratios.GROWTH, ratios.GROWTH_SPREAD, ratios.HALF_LOAD_MS} <= names


def test_a_rate_is_taken_between_turns_so_that_waves_of_them_do_not_blur_it() -> None:
    waves = [float(wave) for wave in range(1, 11) for _ in range(25)]
    assert rate_between(waves, first=50, last=200) == pytest.approx(25)
    late = [*waves[:225], *(20.0 for _ in range(25))]
    assert rate_between(late, first=50, last=200) == pytest.approx(25), (
        "the end, where slots run dry, is not counted"
    )
