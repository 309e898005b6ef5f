"""Data sets: files of the usual formats, public ones, and the synthetic ones of the papers.

`read` takes a file by its suffix, `fetch` a public set from OpenML, `load_benchmark` one from a folder of npz files.
"""

from structopt.data.arff import read_arff
from structopt.data.benchmark import benchmark_folder, load_benchmark
from structopt.data.conll import read_conll, token_features
from structopt.data.flow import PathChoice, synthetic_flow
from structopt.data.npz import read_npz
from structopt.data.openml import fetch
from structopt.data.reading import read
from structopt.data.svmlight import read_svmlight
from structopt.data.synthetic_trees import synthetic_hierarchy
from structopt.data.table import read_csv

__all__ = [
    "PathChoice",
    "benchmark_folder",
    "fetch",
    "load_benchmark",
    "read",
    "read_arff",
    "read_conll",
    "read_csv",
    "read_npz",
    "read_svmlight",
    "synthetic_flow",
    "synthetic_hierarchy",
    "token_features",
]
