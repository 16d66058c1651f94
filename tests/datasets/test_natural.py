"""The paper's nine sets and the images: rows, inputs, labels, choices."""

from __future__ import annotations

import numpy as np
import pytest

from covshift.datasets import (
    fetch_auto_mpg,
    fetch_bike_sharing,
    fetch_fashion_mnist,
    fetch_kuzushiji_mnist,
    fetch_libsvm,
    fetch_parkinsons,
    fetch_wine_quality,
)
from covshift.datasets._libsvm import derive_sonar_scale

pytestmark = pytest.mark.usefixtures("data_folder")

# Rows of source and target as the README of the data counts them.
COUNTS = [
    (fetch_auto_mpg, {}, 245, 147, 6),
    (fetch_auto_mpg, {"target_origins": [2]}, 245, 68, 6),
    (fetch_auto_mpg, {"target_origins": [3]}, 245, 79, 6),
    (fetch_auto_mpg, {"source_origins": (2, 3), "target_origins": (1,)}, 147, 245, 6),
    (fetch_auto_mpg, {"drop_incomplete": False}, 249, 149, 6),
    (fetch_bike_sharing, {}, 363, 368, 9),
    (fetch_bike_sharing, {"source_semester": 2}, 368, 363, 9),
    (fetch_bike_sharing, {"resolution": "hour"}, 8608, 8771, 10),
    (fetch_bike_sharing, {"years": (2011,)}, 181, 184, 8),
    (fetch_bike_sharing, {"years": (2012,)}, 182, 184, 8),
    (fetch_bike_sharing, {"resolution": "hour", "years": (2011,)}, 4250, 4395, 9),
    (fetch_bike_sharing, {"resolution": "hour", "years": (2012,)}, 4358, 4376, 9),
    (fetch_parkinsons, {}, 1877, 3998, 16),
    (fetch_parkinsons, {"threshold": 58}, 1149, 4726, 16),
    (fetch_parkinsons, {"threshold": 62}, 2183, 3692, 16),
    (fetch_parkinsons, {"threshold": 65, "source": "older"}, 3300, 2575, 16),
    (fetch_wine_quality, {}, 4898, 1599, 11),
    (fetch_wine_quality, {"source": "red"}, 1599, 4898, 11),
]
NEVER_INPUTS = {
    "mpg", "origin", "name", "mnth", "season", "instant", "dteday", "casual", "registered", "cnt",
    "age", "sex", "subject#", "test_time", "motor_UPDRS", "total_UPDRS", "type", "quality",
}  # fmt: skip


@pytest.mark.parametrize(("fetch", "choices", "n_source", "n_target", "n_inputs"), COUNTS)
def test_counts_and_inputs(fetch, choices, n_source, n_target, n_inputs):
    data = fetch(**choices)
    assert data.X.shape == (n_source, n_inputs)
    assert data.X_target.shape == (n_target, n_inputs)
    assert data.y.shape == (n_source,)
    assert data.y_target.shape == (n_target,)
    assert len(data.feature_names) == n_inputs
    assert not NEVER_INPUTS & set(data.feature_names)
    assert f"Source: {n_source} rows, target: {n_target} rows" in data.DESCR
    assert np.isfinite(data.y).all()
    assert choices.get("drop_incomplete") is False or np.isfinite(data.X).all()


def test_rows_are_those_of_the_files():
    auto = fetch_auto_mpg()
    assert auto.X[0].tolist() == [8, 307, 130, 3504, 12, 70]
    assert auto.y[0] == 18
    bike = fetch_bike_sharing(resolution="hour")
    assert bike.feature_names[-1] == "hr"
    assert bike.X[1].tolist() == [0, 0, 6, 0, 1, 0.22, 0.2727, 0.8, 0, 1]
    assert bike.y[1] == 40
    parkinsons, motor = fetch_parkinsons(source="older"), fetch_parkinsons(source="older", target="motor_UPDRS")
    assert (parkinsons.y[0], motor.y[0]) == (34.398, 28.199)
    assert parkinsons.X[0, :2].tolist() == [0.00662, 3.38e-5]
    wine = fetch_wine_quality()
    assert wine.X_target[0].tolist() == [7.4, 0.7, 0, 1.9, 0.076, 11, 34, 0.9978, 3.51, 0.56, 9.4]
    assert wine.y_target[0] == 5


def test_daily_counts_moved_between_the_years_as_documented():
    means = [np.mean(np.r_[d.y, d.y_target]) for d in map(lambda y: fetch_bike_sharing(years=(y,)), (2011, 2012))]
    assert [round(mean) for mean in means] == [3406, 5600]


@pytest.mark.parametrize(
    ("fetch", "choices", "message"),
    [
        (fetch_auto_mpg, {"source_origins": ()}, "neither empty"),
        (fetch_auto_mpg, {"source_origins": (1, 2)}, "nothing in common"),
        (fetch_auto_mpg, {"target_origins": (4,)}, "expected two groups"),
        (fetch_bike_sharing, {"resolution": "hours"}, "did you mean 'hour'"),
        (fetch_bike_sharing, {"years": (2013,)}, "expected 2011, 2012 or both"),
        (fetch_bike_sharing, {"source_semester": 3}, "source_semester=3"),
        (fetch_parkinsons, {"threshold": 20}, "ages run from 36 to 85"),
        (fetch_parkinsons, {"target": "UPDRS"}, "total_UPDRS"),
        (fetch_wine_quality, {"source": "rose"}, "'white', 'red'"),
        (fetch_libsvm, {"name": "hart"}, "did you mean 'heart'"),
    ],
)
def test_unknown_choices_are_refused(fetch, choices, message):
    with pytest.raises(ValueError, match=message):
        fetch(**choices)


LIBSVM = [
    ("australian", 690, 14, 307),
    ("breast-cancer", 683, 10, 239),
    ("diabetes", 768, 8, 500),
    ("heart", 270, 13, 120),
    ("sonar", 208, 60, 111),
]


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize(("name", "n", "d", "n_positive"), LIBSVM)
def test_libsvm_counts_and_labels(name, n, d, n_positive, scaled):
    data = fetch_libsvm(name, scaled=scaled)
    assert data.data.shape == (n, d)
    assert set(data.target) == {-1, 1}
    assert (data.target == 1).sum() == n_positive


@pytest.mark.parametrize("name", [row[0] for row in LIBSVM])
def test_scaled_and_unscaled_are_the_same_after_z_scoring(name):
    scaled, raw = fetch_libsvm(name, scaled=True), fetch_libsvm(name, scaled=False)
    z = [(X - X.mean(axis=0)) / X.std(axis=0) for X in (scaled.data, raw.data)]
    np.testing.assert_allclose(z[0], z[1], atol=1e-4)
    np.testing.assert_array_equal(scaled.target, raw.target)


def test_the_sample_number_of_breast_cancer_can_go():
    full, without = (
        fetch_libsvm("breast-cancer", scaled=False),
        fetch_libsvm("breast-cancer", scaled=False, drop_id=True),
    )
    assert full.data[0, 0] == 1000025
    np.testing.assert_array_equal(full.data[:, 1:], without.data)
    assert without.feature_names == full.feature_names[1:]


def test_derived_sonar_is_the_derived_file(data_folder):
    assert derive_sonar_scale() == (data_folder / "libsvm/sonar_scale.derived").read_bytes()


@pytest.mark.parametrize(
    ("fetch", "folder"), [(fetch_fashion_mnist, "fashion-mnist"), (fetch_kuzushiji_mnist, "kmnist")]
)
def test_images_are_balanced_bytes(fetch, folder):
    images = fetch(download_if_missing=False)
    assert images.data.shape == (60_000, 28, 28)
    assert images.data_test.shape == (10_000, 28, 28)
    assert images.data.dtype == images.data_test.dtype == np.uint8
    assert np.bincount(images.target).tolist() == [6000] * 10
    assert np.bincount(images.target_test).tolist() == [1000] * 10
    assert images.data.max() == 255
    assert len(images.target_names) == 10


def test_images_and_labels_belong_together():
    """Trousers (1) have a lit column, sandals (5) do not: nearest class mean finds both far above chance."""
    images = fetch_fashion_mnist()
    means = np.stack([images.data[images.target == k].mean(axis=0).ravel() for k in range(10)])
    test = images.data_test[:500].reshape(500, -1).astype(float)
    nearest = np.argmin(((test[:, None] - means) ** 2).sum(axis=2), axis=1)
    assert np.mean(nearest == images.target_test[:500]) > 0.6


def test_kuzushiji_names_are_those_of_the_class_map(data_folder):
    lines = (data_folder / "kmnist/kmnist_classmap.csv").read_text("utf-8").splitlines()[1:]
    assert fetch_kuzushiji_mnist().target_names == [line.split(",")[2].strip() for line in lines]
