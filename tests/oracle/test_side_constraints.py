"""Rows compressed by the kernel against scipy."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from structopt.oracle.side_constraints import compressed


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 4), st.integers(0, 12))
def test_compressed_is_scipys_csr(seed, m, n):
    rng = np.random.default_rng(seed)
    dense = rng.normal(size=(m, n)) * (rng.random((m, n)) < 0.5)
    values, columns, starts = compressed(dense)
    expected = sp.csr_array(dense)
    assert (values == expected.data).all() and (columns == expected.indices).all() and (starts == expected.indptr).all()
    assert columns.dtype == starts.dtype == np.int32
