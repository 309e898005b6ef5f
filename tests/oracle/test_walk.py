"""A plain call of an oracle goes through few functions."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import structopt as so

FOLDER = str(Path(so.__file__).parent)


def walk(act, *args):
    """Return the Python functions of structopt that a call enters, in order; compiled ones are not entered."""
    found = []

    def trace(frame, event, arg):
        if frame.f_code.co_filename.startswith(FOLDER):
            found.append(frame.f_code.co_qualname)

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act(*args)
    finally:
        sys.settrace(before)
    return found


def declared(length):
    space = so.LabelSpace()
    y, p = space.binary("y", (length, 3)), space.continuous("p", (length - 1, 3, 3), 0, 1)
    space.subject_to(y.sum(axis=1) == 1, p.sum(axis=2) == y[:-1], p.sum(axis=1) == y[1:])
    return so.Oracle(space)


def test_a_plain_call_enters_few_functions():
    oracle = declared(6)
    c = np.random.default_rng(0).normal(size=oracle.space.n_variables)
    oracle.maximize(c)
    found = walk(oracle.maximize, c)
    assert found[0] == "Oracle.maximize" and len(found) <= 15, found
