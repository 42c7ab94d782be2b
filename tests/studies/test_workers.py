"""Studies whose runs workers share: the points of a study that one process makes, and failures that all workers know."""

import dataclasses

import pytest

from plankwise.run.workers import Workers
from plankwise.studies import find_study

NAMES = ("tiny", "other")


def measure(request, place, *, shared):
    """The points of a study in a folder of its own, but for what they took."""
    request = dataclasses.replace(request, folder=place)
    if shared:
        request = dataclasses.replace(request, workers=Workers("here", "study", place, request.console))
    study = find_study(request.name)
    return [(one.points, one.baseline) for one in study.measure(study.plan(request), request)]


@pytest.mark.parametrize(
    ("name", "values", "names"),
    [("impact", ["1", "all"], NAMES[:1]), ("transfer", ["truncated", "successor"], NAMES), ("depth", ["2"], NAMES[:1])],
)
def test_a_study_that_is_shared_has_the_points_of_one_that_is_not(name, values, names, request_for, tmp_path, printed):
    request = request_for(name, values=values, names=names)
    together = measure(request, tmp_path / "together", shared=True)
    assert together == measure(request, tmp_path / "alone", shared=False)
    assert together == measure(request, tmp_path / "alone", shared=False)  # taken from the folder
    assert all(point.score is not None for points, _ in together for point in points)
    begun = printed(request).count("step 1/")
    assert measure(request, tmp_path / "together", shared=True) == together
    assert printed(request).count("step 1/") == begun


def test_a_run_that_failed_is_a_failure_for_every_worker_and_tried_again_by_the_next_command(request_for, tmp_path):
    wild = ("training.learning_rate=1e38", "training.max_steps=3", "method.name=finetune")
    request = request_for("transfer", *wild, values=["successor"], names=NAMES)
    (((point,), _),) = measure(request, tmp_path / "study", shared=True)
    assert point.failure
    file = tmp_path / "study" / "tiny" / "successor" / "seed-0" / "failure.json"
    before = file.stat().st_mtime_ns
    (((again,), _),) = measure(request, tmp_path / "study", shared=True)
    assert again == point
    assert file.stat().st_mtime_ns > before
