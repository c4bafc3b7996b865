"""Evaluation of predictors: values by hand, split in time, bad input."""

import json
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bfio
from bfio.cli.main import main
from bfio.prediction.evaluation import split
from bfio.prediction.length_history import walk
from bfio.prediction.options import EvaluationOptions
from bfio.prediction.predictor import Estimates
from bfio.prediction.report import report_violations
from formulations.arrays import IntArray
from formulations.errors import InputError

LOAD = bfio.synthetic("demo", 80, seed=3)
#: Called as no type checker would let it.
ANY: Any = bfio


def _load(*outputs: int) -> bfio.Workload:
    return bfio.Workload(np.ones(len(outputs), dtype=np.int64), np.array(outputs))


class Stated:
    """States the same of all."""

    def __init__(self, probability: float, mean: float) -> None:
        self.stated = probability, mean
        self.told: list[list[int]] = []
        self.asked: list[list[int]] = []

    def estimate(self, requests: IntArray, ages: IntArray, horizon: int) -> Estimates:
        """Return it."""
        self.asked.append(sorted(set(requests.tolist())))
        probability, mean = self.stated
        return Estimates(np.full(len(requests), probability), np.full(len(requests), mean))

    def finished(self, requests: IntArray, outputs: IntArray) -> None:
        """Take note."""
        self.told.append(requests.tolist())


@given(
    outputs=st.lists(st.integers(1, 60), min_size=1, max_size=8),
    every=st.integers(1, 20),
    max_age=st.none() | st.integers(0, 50),
)
def test_a_walk_has_every_kth_age(outputs: list[int], every: int, max_age: int | None) -> None:
    """Of each request all multiples of K below its length, up to the oldest asked for."""
    expected = [
        (i, age, output - age)
        for i, output in enumerate(outputs)
        for age in range(0, output, every)
        if max_age is None or age <= max_age
    ]
    assert list(zip(*walk(np.array(outputs), every, max_age), strict=True)) == expected


def test_numbers_by_hand() -> None:
    """Outputs 3 and 25 at every 10 tokens, H = 6: r = 3 | 25, 15, 5; p = 0.75, mean 4."""
    report = bfio.evaluate_predictor(
        _load(9, 9, 3, 25), Stated(0.75, 4.0), 6, train_share="1/2", every=10
    )
    assert (report.trained_on, report.evaluated_on, report.points) == (2, 2, 4)
    # r = 3 and r = 5 end within 6 steps.
    assert report.base_rate == 0.5
    assert report.auc == 0.5
    assert report.brier == pytest.approx((2 * 0.25**2 + 2 * 0.75**2) / 4)
    assert report.brier_base_rate == 0.25
    assert report.conditional_mae == 1.0
    assert report.conditional_mae_constant == 1.0
    # ŷ = 0.75·4 + 0.25·6 = 4.5 against min(r, 6) = 3, 6, 6, 5.
    assert report.composite_mae == pytest.approx((1.5 + 1.5 + 1.5 + 0.5) / 4)
    assert report.composite_mae_none == pytest.approx((3 + 0 + 0 + 1) / 4)
    assert report.composite_rmse == pytest.approx(np.sqrt((3 * 1.5**2 + 0.5**2) / 4))
    # Rounded up it is 5.
    assert report.gated_mae == pytest.approx((2 + 1 + 1 + 0) / 4)
    assert report.gate_open_share == 1.0
    ages = [(e.lower, e.upper, e.points, e.base_rate, e.conditional_mae) for e in report.by_age]
    assert ages == [(0, 10, 2, 0.5, 1.0), (10, 20, 1, 0.0, None), (20, 50, 1, 1.0, 1.0)]


@given(
    outputs=st.lists(st.integers(1, 60), min_size=2, max_size=12),
    horizon=st.integers(1, 80),
    every=st.integers(1, 20),
    max_age=st.none() | st.integers(0, 50),
)
def test_reports_pass_their_checker(
    outputs: list[int], horizon: int, every: int, max_age: int | None
) -> None:
    """Whatever is asked; one with a wrong number does not."""
    load = _load(*outputs)
    report = bfio.evaluate_predictor(
        load, Stated(0.6, 1.0), horizon, train_share=0, every=every, max_age=max_age
    )
    assert report_violations(report, load.output_tokens) == {}
    for name in ("points", "base_rate", "composite_mae"):
        wrong = replace(report, **{name: getattr(report, name) + 1})
        assert name in report_violations(wrong, load.output_tokens)


def test_an_oracle_is_perfect_and_nothing_is_worth_a_coin() -> None:
    """Of the oracle every error is 0; `none` ranks nothing, and H counts as its mean."""
    oracle = bfio.evaluate_predictor(LOAD, "oracle", 20)
    assert (oracle.auc, oracle.brier, oracle.conditional_mae, oracle.composite_mae) == (1, 0, 0, 0)
    none = bfio.evaluate_predictor(LOAD, "none", 20)
    assert none.auc == 0.5
    assert none.composite_mae == none.composite_mae_none
    assert none.gate_open_share == 0
    assert none.brier == none.base_rate


@given(share=st.fractions(0, 1).filter(lambda share: share < 1), count=st.integers(1, 30))
def test_the_split_is_one_in_time(share: Any, count: int) -> None:
    """The history is what came first, and both are the whole."""
    load = _load(*range(1, count + 1))
    if share and int(share * count) == 0:
        # No share makes one request two.
        remedy = "$" if count == 1 else " or a larger share$"
        with pytest.raises(InputError, match=f"leaves none to .*; give more requests{remedy}"):
            split(load, EvaluationOptions(train_share=share))
        return
    history, rest = split(load, EvaluationOptions(train_share=share))
    joined = [*history.output_tokens.tolist(), *rest.output_tokens.tolist()]
    assert joined == list(range(1, count + 1))
    assert len(history) == int(share * count)


def test_a_history_is_learned_from_as_it_is() -> None:
    """A workload that has its past is split already; both parts are filtered."""
    load = _load(*range(1, 9)).after(Fraction(1, 4))
    history, rest = split(load, EvaluationOptions(min_output=2, max_output=7))
    assert history.output_tokens.tolist() == [2]
    assert rest.output_tokens.tolist() == [3, 4, 5, 6, 7]
    assert rest.history is history


def test_prompts_that_recur_are_known_again() -> None:
    """Three prompts whose lengths differ: by their keys each is known, by age alone none is."""
    keys = np.tile([0, 1, 2], 20)
    load = bfio.Workload(np.full(60, 7), keys * 4 + 3, prompt_keys=keys)
    matched = bfio.evaluate_predictor(load, "exact-match", 5)
    assert (matched.auc, matched.brier, matched.conditional_mae) == (1.0, 0.0, 0.0)
    alone = bfio.evaluate_predictor(load, "survival", 5)
    assert alone.auc is not None
    assert alone.auc < 0.8


def test_the_command_splits_once(capsys: pytest.CaptureFixture[str]) -> None:
    """In time, a quarter to learn from."""
    command = "predict evaluate --requests 80 --predictor none --train-share 1/4 --json"
    assert main(command.split()) == 0
    (report,) = json.loads(capsys.readouterr().out)["reports"]
    assert (report["trained_on"], report["evaluated_on"]) == (20, 60)


def test_the_filter_is_on_outputs_of_both_parts() -> None:
    """Those from 3 to 5 tokens of 1 to 8."""
    history, rest = split(_load(*range(1, 9)), EvaluationOptions(min_output=3, max_output=5))
    assert history.output_tokens.tolist() == [3]
    assert rest.output_tokens.tolist() == [4, 5]


def test_lengths_are_told_after_the_questions_about_them() -> None:
    """Turns of two requests: asked, then told; without ``online`` nothing is told."""
    predictor = Stated(0.5, 2.0)
    bfio.evaluate_predictor(_load(4, 4, 4, 4, 4), predictor, 6, train_share=0, online=2)
    assert predictor.told == [[0, 1], [2, 3], [4]]
    assert predictor.asked[:3] == predictor.told
    silent = Stated(0.5, 2.0)
    bfio.evaluate_predictor(_load(4, 4), silent, 6, train_share=0)
    assert silent.told == []


def test_one_class_is_said_so() -> None:
    """All lengths equal and short: every point ends within H, and the AUC is undefined."""
    report = bfio.evaluate_predictor(_load(4, 4, 4, 4), "none", 20)
    assert report.auc is None
    (remark,) = report.remarks()
    assert "AUC is undefined, as every point ends within the window" in remark
    assert report.by_age[0].auc is None
    assert "undefined" in repr(report)
    none_end = bfio.evaluate_predictor(_load(400, 400), "none", 5, max_age=10)
    assert "no point ends" in none_end.remarks()[0]
    assert none_end.conditional_mae is None


NAN = float("nan")
evaluate = ANY.evaluate_predictor


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: evaluate(LOAD, "none", 0), "look_ahead: 0 is out of range; use 1"),
        (lambda: evaluate(LOAD, "nonne"), "predictor: 'nonne' is unknown; did you"),
        (lambda: evaluate("none", LOAD), "workload: a str is not a Workload"),
        (
            lambda: evaluate(LOAD, "none", train_share=1),
            "train_share: 1 is out of range; use 0 <= share < 1",
        ),
        (
            lambda: evaluate(LOAD, "none", train_share="1/100"),
            "train_share: 1/100 of 80 requests leaves none to learn from; give more requests or",
        ),
        (lambda: evaluate(LOAD, "none", every=0), "every: 0 is out of range"),
        (
            lambda: evaluate(LOAD, "none", online=40),
            "online: 40 are not fewer than the 40 evaluated requests; use fewer requests",
        ),
        (
            lambda: evaluate(LOAD, "none", min_output=9, max_output=3),
            "max_output: 3 is less than min_output, 9",
        ),
        (
            lambda: evaluate(LOAD, "none", min_output=10**6),
            "demo: no request has 1000000 to any output tokens",
        ),
        (
            lambda: evaluate(LOAD, "none", onlin=3),
            "evaluate_predictor(...): no option 'onlin'; did you mean online?",
        ),
        (
            lambda: evaluate(LOAD, Stated(NAN, 1.0)),
            "Stated: estimate returned a probability of nan",
        ),
        (lambda: evaluate(LOAD, Stated(0.5, NAN)), "Stated: estimate returned a mean of nan"),
        (lambda: evaluate(LOAD, Stated(0.5, -2.0)), "Stated: estimate returned a mean of -2"),
    ],
)
def test_slips_are_one_line(call: Any, message: str) -> None:
    """What, where, and what to do."""
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_a_report_is_a_frame_a_table_and_a_picture() -> None:
    """As all results are; its document is plain JSON, also if numbers come from numpy."""
    report = ANY.evaluate_predictor(LOAD, "noisy-oracle:0.5", np.int64(20), every=np.int64(10))
    assert len(report.to_frame()) == len(report.by_age) > 2
    assert "noisy-oracle:0.5" in report._repr_html_()
    assert len(report.plot().axes) == 3
    document = json.loads(json.dumps(report.to_mapping()))
    assert document["train_share"] == 0.5
    assert sum(entry["count"] for entry in document["calibration"]) == document["points"]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A report for each window and predictor; a table and a picture."""
    place = tmp_path / "accuracy.png"
    command = "predict evaluate --synthetic geometric --requests 120 --predictor oracle none"
    assert main([*command.split(), "--horizon", "5", "20", "--json", "--plot", str(place)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [(r["horizon"], r["predictor"]) for r in document["reports"]] == [
        (5, "oracle"), (5, "none"), (20, "oracle"), (20, "none"),
    ]  # fmt: skip
    assert place.read_bytes().startswith(b"\x89PNG")
    assert main(command.split()) == 0
    assert "Does a request end within H steps" in capsys.readouterr().out
    assert main([*command.split(), "--table", "csv"]) == 0
    assert capsys.readouterr().out.startswith("table,predictor,points,base rate,AUC")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--horizon 0", "--horizon: 0 is out of range"),
        ("--predictor surviva", "predictor: 'surviva' is unknown"),
        ("--train-share 2", "--train-share: 2 is out of range"),
        ("--plot x.doc", "--plot: x.doc is not a picture"),
        ("--plot no/such/x.png", "--plot: folder no/such does not exist"),
        ("--trace no-such-file", "no-such-file: "),
        ("--max-output 0", "--max-output: 0 is out of range"),
    ],
)
def test_slips_of_the_command(
    words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line on stderr, status 2, nothing on stdout."""
    assert main(["predict", "evaluate", *words.split()]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert message in told.err.splitlines()[-1]


def test_a_noisy_oracle_is_better_the_less_noise_it_has() -> None:
    """AUC falls and errors rise with the noise."""
    reports = [
        bfio.evaluate_predictor(bfio.synthetic("demo", 400, seed=5), f"noisy-oracle:{e}", 20)
        for e in ("0", "0.2", "0.8")
    ]
    areas = [report.auc for report in reports]
    assert areas == sorted(areas, reverse=True)  # type: ignore[type-var]
    errors = [report.composite_mae for report in reports]
    assert errors == sorted(errors)
    assert areas[0] == 1.0


@pytest.mark.parametrize("area", ["0.6", "0.9"])
def test_a_classifier_of_a_chosen_area_has_it(area: str) -> None:
    """And its probabilities are calibrated."""
    load = bfio.synthetic("demo", 1000, seed=7)
    report = bfio.evaluate_predictor(load, f"noisy-classifier:auc={area}", 20)
    assert report.auc == pytest.approx(float(area), abs=0.02)
    assert report.calibration_error < 0.02
    assert report.brier < report.brier_base_rate
