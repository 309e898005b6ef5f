"""A few fixed cases of every fuzz job, so that a change that breaks one is seen before `make fuzz` runs."""

import importlib.util
import sys
from pathlib import Path

import pytest


def _runner():
    spec = importlib.util.spec_from_file_location("structopt_fuzz_run", Path(__file__).with_name("run.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


run = _runner()


@pytest.mark.parametrize("job", run.job_names())
def test_first_cases(job):
    report = run.run_cases(job, range(10))
    assert not report.failures, report.failures[0][1]
    assert sum(report.kinds.values()) == 10


def test_a_failure_is_reported_with_its_seed(tmp_path, monkeypatch):
    (tmp_path / "odd.py").write_text(
        "def case(seed):\n    assert seed != 3, 'three is wrong'\n    return 'even or odd'\n", encoding="utf-8"
    )
    monkeypatch.setattr(run, "HERE", tmp_path)
    assert run.job_names() == ["odd"]
    report = run.run_cases("odd", range(5))
    assert report.kinds == {"even or odd": 4}
    assert [seed for seed, _ in report.failures] == [3]
    assert "three is wrong" in report.failures[0][1]


def test_unknown_job_is_refused(capsys):
    with pytest.raises(SystemExit):
        run.main(["nothing"])
    assert "there is no job 'nothing'" in capsys.readouterr().err
