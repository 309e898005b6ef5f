"""Training on data that outgrow one process: shards on the workers of a dask cluster (extra ``dask``).

BMRM's Algorithm 5: every worker evaluates the risk of the examples that it holds, and the driver adds up. A
`ShardedRisk` is a risk like any other, so that the trainers of `structopt.train` and all regularisers work unchanged.
``import structopt`` does not need dask; this package does.
"""

try:
    import distributed as _distributed  # noqa: F401
except ImportError as error:
    raise ImportError("structopt.distributed needs dask: pip install 'structopt-learn[dask]'.") from error

from structopt.distributed import loaders
from structopt.distributed.block_ascent import block_ascent
from structopt.distributed.cluster import Workers
from structopt.distributed.risk import ShardedRisk
from structopt.distributed.sgd import sgd
from structopt.distributed.shards import Shard, ShardInfo, Shards

__all__ = [
    "Shard",
    "ShardInfo",
    "ShardedRisk",
    "Shards",
    "Workers",
    "block_ascent",
    "loaders",
    "sgd",
]
