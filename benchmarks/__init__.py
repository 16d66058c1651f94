"""Speed and memory, as ratios taken in one run with one BLAS thread; not part of the tests.

`make bench`, or `python -m benchmarks [names ...]`, runs the rows of the registry in `benchmarks/__main__.py`, prints
one table (work, must, aim, measured, reached) and writes `results/benchmarks.csv`. Rows that are not run again keep
what the file has for them. `python -m benchmarks --list` names them.

A row is a function without arguments in a module of this package that returns a `Record` or a list of them
(`benchmarks/_record.py`); it is registered by one line in `benchmarks/__main__.py` and runs in a process of its own,
in which the number of BLAS threads was set to one before NumPy was loaded. Whatever it compares with is measured in
the same call: a share of the best matrix product of this machine, or seconds over seconds. Competing packages live in
an environment of their own, which the first run that needs it makes (`benchmarks/_competitors.py`).

`benchmarks/ratio_accuracy.py` is not about speed: it writes `results/ratio_accuracy.csv`.
"""
