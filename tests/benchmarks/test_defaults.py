"""The study of the defaults: rules on its pool are what the estimator does, its table is that of its rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

from benchmarks import comparisons, defaults, pools
from covshift.experiments.contract import Draw
from covshift.experiments.grid import problem_function
from covshift.experiments.rows import Row
from covshift.onestep._alternate import Solution
from covshift.onestep._sample import Prepared
from covshift.onestep._scores import corrected_score
from covshift.onestep._search import search

pytestmark = pytest.mark.filterwarnings("ignore::covshift.exceptions.OverlapWarning")
ROOT = Path(__file__).parents[2]
SAME_BY_ESTIMATOR = {
    "shrink=zero": {"shrink": "zero"},
    "reg_g with inf": {"reg_g": (*np.logspace(-2, 2, 5), np.inf)},
    "reg_g=inf (no weights)": {"reg_g": np.inf},
    "selection=best": {"selection": "best"},
    "selection=average": {"selection": "average"},
    "variance_weight=0": {"variance_weight": 0.0},
    "sharpness=1/8": {"sharpness": 1 / 8},
    "average, sharpness=1/32": {"selection": "average", "sharpness": 1 / 32},
}


def two_classes(seed: int) -> Draw:
    rng = np.random.default_rng(seed)
    X, X_target, X_eval = rng.normal(0, 1, (60, 2)), rng.normal(1, 1, (50, 2)), rng.normal(1, 1, (80, 2))
    y, y_eval = (np.where(x.sum(axis=1) + rng.normal(0, 1, len(x)) > 0, "b", "a") for x in (X, X_eval))
    return Draw("classification", X, y, X_target, X_eval, y_eval)


@pytest.fixture(scope="module", params=["regression", "classification"])
def opened(request):
    draw = problem_function("toy")(5, n_eval=50) if request.param == "regression" else two_classes(5)
    return draw, pools.OpenedFit(draw, 5)


def test_rules_on_the_pool_are_the_fits_of_the_estimator(opened):
    draw, fit = opened
    rules = defaults.JUDGED_REGRESSION if draw.kind == "regression" else defaults.JUDGED_CLASSIFICATION
    names = [name for name in SAME_BY_ESTIMATOR if name in rules]
    assert len(names) >= 5
    for name in names:
        model = defaults.estimator_of(draw.kind, 5, **SAME_BY_ESTIMATOR[name])
        expected = model.fit(draw.X, draw.y, X_target=draw.X_target).predict(draw.X_eval)
        predicted = fit.predict(fit.pool.mixture(*rules[name]))
        if draw.kind == "regression":
            np.testing.assert_allclose(predicted, expected, rtol=1e-8, atol=1e-10)
        else:
            assert (predicted == expected).all()


def test_the_score_of_a_mixture_is_the_corrected_score_of_the_mixed_fold_models():
    rng = np.random.default_rng(0)
    draw = problem_function("toy")(6, n_eval=50)
    opened = pools._OpenedRegressor(bandwidth_f="median", random_state=6).fit(draw.X, draw.y, X_target=draw.X_target)
    entry, grid, folds, plan, scoring = opened.parts_
    result = search(Prepared.of(entry.sample, grid.bandwidths_g), grid, folds, plan, scoring)
    f, alphas, reference = result.fits.bases[0], result.fits.alpha[0], result.reference
    predictions = pools.fold_predictions(result.fits)
    score = pools.mixture_score(*predictions, entry.sample.Y[:, 0], folds, reference.weights, 1.0)
    for _ in range(3):
        q = rng.dirichlet(np.full(len(grid), 0.1))
        mixed = [Solution((alpha @ q)[..., None], np.zeros((1, 1)), *2 * [np.zeros(1)]) for alpha in alphas]
        expected = corrected_score(f, entry.sample, folds, mixed, reference, 1.0)[0]
        assert score(q) == pytest.approx(expected, rel=1e-9)


def test_the_corners_of_the_pool_are_the_scores_of_the_estimator(opened):
    draw, fit = opened
    model = defaults.estimator_of(draw.kind, 5).fit(draw.X, draw.y, X_target=draw.X_target)
    corners = fit.pool.score.corners(fit.pool.scoring.variance_weight)[fit.pool.kind == "one"]
    off = np.abs(np.sort(corners) / np.sort(model.cv_results_["score"]) - 1)
    assert np.quantile(off, 0.95) <= 1e-9
    # A wide basis with the least ridge has a condition of 1e9, where two orders of summation agree to about 1e-8.
    assert off.max() <= 1e-7


def test_stacking_is_no_worse_than_any_candidate_and_as_low_as_a_generic_solver(opened):
    _, fit = opened
    pool = fit.pool
    q = pool.stacked(("one", "unweighted"))
    own = np.flatnonzero((pool.kind != "zero") & pool.sound)
    assert q.min() >= 0 and q.sum() == pytest.approx(1) and not q[pool.kind == "zero"].any()
    score, c = pool.score.take(own), len(own)
    assert score(q[own]) <= score.corners(score.v).min() + 1e-9
    whole = {"type": "eq", "fun": lambda q: q.sum() - 1, "jac": lambda q: np.ones(c)}
    generic = minimize(
        score, np.full(c, 1 / c), jac=score.gradient, bounds=[(0, 1)] * c, constraints=whole, method="SLSQP",
        options={"maxiter": 200, "ftol": 1e-10},
    )  # fmt: skip
    assert score(q[own]) <= generic.fun * 1.01


def test_a_line_is_ratio_of_means_paired_test_and_worst_draw():
    a, b = np.array([1.0, 2.0, 6.0, np.nan]), np.array([1.0, 1.0, 2.0, 1.0])
    rows = [Row("toy", "max_iter=1", i, "mse", a[i], 0.0) for i in range(4)]
    rows += [Row("toy", "default", i, "mse", b[i], 0.0) for i in range(4)]
    (line,) = comparisons.compare(rows, ["toy"])
    assert (line.dataset, line.variant, line.reference, line.trials) == ("toy", "max_iter=1", "default", 3)
    assert line.ratio == pytest.approx(9 / 4)
    assert line.p == pytest.approx(stats.ttest_rel(a[:3], b[:3]).pvalue)
    assert line.worst == pytest.approx(6 / (4 / 3))
    assert line.se == pytest.approx(np.std(a[:3] - 9 / 4 * b[:3], ddof=1) / np.sqrt(3) / (4 / 3))


def test_learners_are_compared_with_themselves_without_losses():
    assert comparisons.reference_of("boosting: in-sample losses") == "boosting: coupling=0"
    assert comparisons.reference_of("coupling=0") == "default"


def test_the_command_writes_a_table_and_continues(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(defaults, "REGRESSION", {"max_iter=10": {"max_iter": 10}})
    monkeypatch.setattr(defaults, "SCALES", ())
    arguments = ["--trials", "2", "--datasets", "toy", "--out", str(tmp_path)]
    defaults.main(arguments)
    rows = (tmp_path / "rows.csv").read_text()
    defaults.main([*arguments, "--resume"])
    assert (tmp_path / "rows.csv").read_text() == rows
    lines = comparisons.read_csv(tmp_path / "defaults.csv")
    assert [line.variant for line in lines] == sorted(set(defaults._variants("toy")) - {"default"})
    assert all(line.trials == 2 and line.ratio > 0 for line in lines)
    assert "max_iter=10" in capsys.readouterr().out


def test_one_trial_is_refused(capsys):
    with pytest.raises(SystemExit):
        defaults.main(["--trials", "1"])
    assert "at least 2 draws" in capsys.readouterr().err


@pytest.mark.parametrize("stem", ["defaults", "defaults_former"])
def test_the_page_shows_the_committed_tables(stem):
    groups = {name: one.group for name, one in defaults.PROBLEMS.items()}
    lines = comparisons.read_csv(ROOT / "results" / f"{stem}.csv")
    assert {name for name, group in groups.items() if group.endswith("ion")} <= {line.dataset for line in lines}
    page = (ROOT / "docs" / "defaults.md").read_text()
    for table in comparisons.tables(lines, groups, stem):
        assert f"<!-- table {table.name} -->\n{table.markdown()}<!-- /table -->" in page


def test_the_committed_table_has_every_variant():
    lines = comparisons.read_csv(ROOT / "results" / "defaults.csv")
    for name in {line.dataset for line in lines}:
        variants = {line.variant for line in lines if line.dataset == name}
        assert set(defaults._variants(name)) == variants | {line.reference for line in lines if line.dataset == name}
