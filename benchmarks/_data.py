"""Data sets beside the checkout, or in STRUCTOPT_DATA, for the benchmarks of the papers' tables."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

__all__ = ["DATA", "load", "unit_rows"]

DATA = Path(os.environ.get("STRUCTOPT_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


def load(name: str, split: str) -> tuple[sp.csr_matrix, Any]:
    """Features, and labels as 0/1 rows or classes."""
    with np.load(DATA / name / f"{split}.npz") as file:
        arrays = tuple(file[f"X_{key}"] for key in ("data", "indices", "indptr"))
        X = sp.csr_matrix(arrays, shape=tuple(file["X_shape"])).astype(np.float64)
        return X, np.asarray(file["Y"] if "Y" in file else file["y"])


def unit_rows(X: Any) -> Any:
    from sklearn.preprocessing import normalize

    return normalize(X)
