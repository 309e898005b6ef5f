"""Thread settings of every benchmark process."""

__all__ = ["ONE_THREAD"]

#: Environment for one thread per process. Threads of BLAS that wait for a core would count as CPU time.
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
