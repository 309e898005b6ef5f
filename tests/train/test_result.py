"""Results and histories."""

from __future__ import annotations

import numpy as np
import pytest

from structopt.train.result import History, Record, TrainResult, relative_gap


def history():
    records = [Record(2.0, -np.inf, np.inf, 10, 1.0, 0.1, {"risk": 0.1})]
    records.append(Record(1.5, 1.2, 0.2, 20, 2.0, 0.3, {"risk": 0.2, "dual": 0.05}))
    return History(records)


def result(**changes):
    values = {"w": np.zeros(3), "objective": 1.5, "lower_bound": 1.2, "gap": 0.2, "history": history(), "tol": 0.1}
    return TrainResult(**(values | {"trainer": "bmrm", "stopped": "passes"} | changes))


def test_relative_gap_is_never_negative_nor_nan():
    assert relative_gap(1.0, 1.0 + 1e-16) == 0.0
    assert relative_gap(0.0, 0.0) == 0.0
    assert relative_gap(-2.0, -3.0) == 0.5
    assert relative_gap(np.inf, 0.0) == relative_gap(1.0, -np.inf) == np.inf


def test_history_columns_slices_and_round_trip():
    h = history()
    assert h["dual"].tolist() == [0.0, 0.05]
    assert h["oracle_calls"].tolist() == [10, 20]
    assert len(h[1:]) == 1 and h[-1].passes == 2.0
    with pytest.raises(KeyError, match="objective"):
        h["nothing"]
    again = History.from_arrays(h.to_arrays())
    assert again[1] == h[1]
    assert again[0].gap == np.inf and again[0].parts["risk"] == 0.1
    assert repr(h) == "History(2 records, gap 0.2 after 2 passes)"
    assert repr(History()) == "History(empty)"


def test_result_says_how_it_ended():
    r = result()
    assert not r.converged and r.absolute_gap == pytest.approx(0.3)
    assert "stopped: passes" in repr(r) and "gap=0.2" in repr(r)
    assert "max_passes was reached" in r._repr_html_() and "seconds in dual" in r._repr_html_()
    assert result(gap=0.05, stopped="tol").converged
    assert result(gap=1e-13, tol=0.0, stopped="precision").converged
    empty = result(history=History())
    assert (empty.passes, empty.oracle_calls, empty.seconds) == (0.0, 0, 0.0)
