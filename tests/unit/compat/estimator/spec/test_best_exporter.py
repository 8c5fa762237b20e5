"""BestExporter: the first result, better results, and results from before a restart."""

from __future__ import annotations

import functools
import os

import pytest

from ps_train.compat.estimator.spec.best_exporter import BestExporter, loss_smaller
from tests.support.saved.event_files import write


class Estimator:
    """An Estimator that counts its exports, each an empty directory."""

    def __init__(self, model_dir):
        self.model_dir, self.exported = str(model_dir), []

    def export_saved_model(self, directory, receiver_fn, assets_extra=None, as_text=False, checkpoint_path=None):
        self.exported.append(checkpoint_path)
        path = f"{directory}/{1000000000 + len(exports(directory))}"
        os.makedirs(path)
        return path


def exports(directory):
    return sorted(os.listdir(directory)) if os.path.isdir(directory) else []


@pytest.fixture
def run(tmp_path):
    """Returns a function: an exporter and results to the losses that are exported."""

    def results(exporter, *given, estimator=None):
        estimator = estimator or Estimator(tmp_path)
        directory = os.path.join(estimator.model_dir, "export", exporter.name)
        written = [exporter.export(estimator, directory, "ckpt", result, False) for result in given]
        return [result for result, path in zip(given, written, strict=True) if path]

    return results


def loss(value, step=None):
    return {"loss": value} if step is None else {"loss": value, "global_step": step}


def test_the_defaults_are_stocks():
    assert BestExporter().name == "best_exporter"
    assert BestExporter("best", lambda: None, "eval/*", loss_smaller, {}, True, None).name == "best"


def test_point_83_the_first_result_is_exported_and_then_better_ones(run):
    given = [loss(value) for value in (5.0, 6.0, 5.0, 4.0, 4.5, 1.0)]
    assert run(BestExporter(), *given) == [loss(5.0), loss(4.0), loss(1.0)]


def test_point_83_compare_fn_decides(run):
    def higher_auc(best_eval_result, current_eval_result):
        return current_eval_result["auc"] > best_eval_result["auc"]

    given = [{"auc": value, "loss": -value} for value in (0.5, 0.4, 0.6)]
    assert run(BestExporter(compare_fn=higher_auc), *given) == [given[0], given[2]]


def test_point_83_compare_fn_may_be_a_partial_function_or_an_object(run):
    def margin(least, best_eval_result, current_eval_result):
        return best_eval_result["loss"] - current_eval_result["loss"] > least

    exporter = BestExporter(compare_fn=functools.partial(margin, 1.0))
    assert run(exporter, loss(5.0), loss(4.5), loss(3.0)) == [loss(5.0), loss(3.0)]


@pytest.mark.parametrize(
    "compare_fn",
    [
        None,
        lambda best_eval_result: True,
        lambda current_eval_result: True,
        lambda best, current: True,
        lambda best_eval_result, current_eval_result, other: True,
    ],
)
def test_point_83_the_arguments_of_compare_fn_are_checked(compare_fn):
    with pytest.raises(ValueError, match=r"compare_fn=.*: use "):
        BestExporter(compare_fn=compare_fn)


@pytest.mark.parametrize("count", [0, -1])
def test_point_83_the_number_of_exports_is_positive(count):
    with pytest.raises(ValueError, match=f"exports_to_keep={count} is not valid"):
        BestExporter(exports_to_keep=count)


@pytest.mark.parametrize(("keep", "kept"), [(2, 2), (None, 6)])
def test_point_83_only_some_exports_are_kept(run, tmp_path, keep, kept):
    given = [loss(-float(number)) for number in range(6)]
    counter = Counting(tmp_path)
    assert run(BestExporter(exports_to_keep=keep), *given, estimator=counter) == given
    names = exports(tmp_path / "export" / "best_exporter")
    assert names == [str(1000000000 + number) for number in range(6)][-kept:]


class Counting(Estimator):
    """An Estimator that never uses the name of a removed export again."""

    def export_saved_model(self, directory, receiver_fn, **others):
        path = f"{directory}/{1000000000 + len(self.exported)}"
        self.exported.append(path)
        os.makedirs(path)
        return path


def test_point_83_after_a_restart_earlier_results_count(run, tmp_path):
    assert run(BestExporter(), loss(5.0, 1)) == [loss(5.0, 1)]
    write(tmp_path / "eval", {1: {"loss": 5.0}, 2: {"loss": 7.0}, 3: {"loss": 6.0}})
    given = [loss(6.0, 3), loss(5.5, 4), loss(4.0, 5)]
    assert run(BestExporter(), *given) == [loss(4.0, 5)]


def test_point_83_after_a_restart_the_result_itself_is_not_an_earlier_one(run, tmp_path):
    assert run(BestExporter(), loss(5.0, 1)) == [loss(5.0, 1)]
    write(tmp_path / "eval", {1: {"loss": 5.0}, 2: {"loss": 4.0}})  # evaluate() writes its events before the export
    assert run(BestExporter(), loss(4.0, 2)) == [loss(4.0, 2)]


def test_point_83_a_run_that_has_exported_nothing_exports_its_first_result(run, tmp_path):
    write(tmp_path / "eval", {1: {"loss": 1.0}})
    assert run(BestExporter(), loss(9.0, 2), loss(8.0, 3), loss(8.5, 4)) == [loss(9.0, 2), loss(8.0, 3)]


@pytest.mark.parametrize("pattern", [None, "eval_other/*.tfevents.*"])
def test_point_83_without_event_files_a_restart_exports_again(run, tmp_path, pattern):
    assert run(BestExporter(), loss(1.0, 1)) == [loss(1.0, 1)]
    write(tmp_path / "eval", {1: {"loss": 1.0}})
    assert run(BestExporter(event_file_pattern=pattern), loss(5.0, 2)) == [loss(5.0, 2)]


def test_events_without_a_loss_are_not_results_of_evaluations(run, tmp_path):
    assert run(BestExporter(), loss(5.0, 1)) == [loss(5.0, 1)]
    write(tmp_path / "eval", {1: {"loss": 5.0}, 2: {"own": 3.0}})
    assert run(BestExporter(), loss(6.0, 3), loss(4.0, 4)) == [loss(4.0, 4)]


def test_each_model_dir_has_a_best_model_of_its_own(run, tmp_path):
    exporter = BestExporter()
    assert run(exporter, loss(1.0), estimator=Estimator(tmp_path / "a")) == [loss(1.0)]
    assert run(exporter, loss(2.0), estimator=Estimator(tmp_path / "b")) == [loss(2.0)]


def test_the_smaller_loss_is_better_and_must_be_there():
    assert loss_smaller(loss(2.0), loss(1.0)) and not loss_smaller(loss(1.0), loss(1.0))
    for best, current in [({}, loss(1.0)), (None, loss(1.0)), (loss(1.0), {"auc": 1.0})]:
        with pytest.raises(ValueError, match="has no loss"):
            loss_smaller(best, current)
