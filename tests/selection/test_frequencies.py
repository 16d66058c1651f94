"""A row of frequency k is k copies in the searches that cut labelled rows into folds too."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge

from covshift import ULSIF, ImportanceWeighted
from covshift.model_selection import IWGridSearchCV
from covshift.weighting._erm import labelled_folds

RATIO = ULSIF(bandwidth=1.0, reg=0.1, random_state=0)
SEARCHES = {
    "flattening": ImportanceWeighted(Ridge(), RATIO, flattening=[0.0, 0.5, 1.0], random_state=0),
    "flattening of a classifier": ImportanceWeighted(LogisticRegression(), RATIO, [0.0, 1.0], random_state=0),
    "grid": IWGridSearchCV(Ridge(), {"alpha": [0.1, 100.0]}, ratio=RATIO, random_state=0),
    "grid of a classifier": IWGridSearchCV(LogisticRegression(), {"C": [0.01, 1.0]}, ratio=RATIO, random_state=0),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_frequencies_score_candidates_as_copies_do(name):
    rng = np.random.default_rng(0)
    X, X_target = rng.normal(size=(60, 2)), rng.normal(0.5, 0.8, size=(45, 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=60)
    if "classifier" in name:
        y = np.where(y > 0, "high", "low")
    s = rng.integers(0, 4, 60)
    copies = rng.permutation(np.repeat(np.arange(60), s))
    counted = clone(SEARCHES[name]).fit(X, y, X_target=X_target, sample_weight=s)
    copied = clone(SEARCHES[name]).fit(X[copies], y[copies], X_target=X_target)
    scores = counted.cv_results_["mean_test_score"]
    assert np.ptp(scores) > 0
    np.testing.assert_allclose(copied.cv_results_["mean_test_score"], scores, rtol=1e-5)


def as_tensor(X):
    return pytest.importorskip("torch").tensor(X)


@pytest.mark.parametrize("form", [as_tensor, sparse.csr_array, np.ndarray.tolist, lambda X: X.astype(str)])
def test_folds_go_by_content_for_rows_of_every_kind(form):
    X, y = np.arange(20.0).reshape(10, 2), np.arange(10)
    for fold in labelled_folds(5, form(X), y, 10, False, 0):
        assert sorted([*fold.train, *fold.test]) == list(range(10))
