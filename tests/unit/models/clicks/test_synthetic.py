"""Made-up clicks: of the right format, the same for a seed, with the signal that is said to be in them."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.data import criteo
from ps_train.data.data_shard import DataShard
from ps_train.data.pipeline import training_batches
from ps_train.errors import DataError
from ps_train.models.clicks.__main__ import main
from ps_train.models.clicks.synthetic import auc, best_scores, read, seed_of, write_files
from ps_train.models.clicks.synthetic_model import Clicks, SyntheticClickModel, identities

PATTERN = re.compile(r"[01](\t(-?\d+)?){13}(\t([0-9a-f]{8})?){26}")


def contents(files):
    return {path.name: gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes() for path in files}


def sigmoid(logits):
    return 1 / (1 + np.exp(-logits))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    directory = tmp_path_factory.mktemp("made") / "new"
    return str(directory), write_files(str(directory), lines=10_000, seed=3, parts=2)


@pytest.fixture(scope="module")
def drawn():
    planted = SyntheticClickModel(3)
    return planted, planted.draw(np.random.default_rng(5), 40_000)


def test_every_line_is_of_the_format(made):
    _, files = made
    for content in contents(files).values():
        assert content.endswith(b"\n")
        assert all(PATTERN.fullmatch(line) for line in content.decode().splitlines())


def test_the_training_lines_are_parted_and_the_test_lines_are_a_fifth_as_many_more(made):
    lines = {name: content.count(b"\n") for name, content in contents(made[1]).items()}
    assert list(lines) == ["train-00000.txt", "train-00001.txt", "test-00000.txt"]
    assert lines["train-00000.txt"] + lines["train-00001.txt"] == 10_000
    assert 0 < lines["train-00000.txt"] < lines["train-00001.txt"]
    assert lines["test-00000.txt"] == 2000


def test_no_two_files_hold_the_same_lines(made):
    found = [set(content.splitlines()) for content in contents(made[1]).values()]
    assert not found[0] & found[1] and not found[0] & found[2] and not found[1] & found[2]


@pytest.mark.parametrize("gz", [False, True])
def test_the_same_seed_makes_the_same_bytes_and_another_seed_others(tmp_path, gz):
    directories = {name: tmp_path / name for name in ("first", "again", "other")}
    for name, directory in directories.items():
        write_files(str(directory), lines=500, seed=2 if name == "other" else 1, parts=3, gz=gz)
    first, again, other = (
        {path.name: path.read_bytes() for path in sorted(directory.iterdir())} for directory in directories.values()
    )
    assert first == again
    assert first.keys() == other.keys()
    assert all(first[name] != other[name] for name in first)


def test_gzipped_files_hold_the_same_lines(made, tmp_path):
    zipped = write_files(str(tmp_path / "new"), lines=10_000, seed=3, parts=2, gz=True)
    assert list(contents(zipped).values()) == list(contents(made[1]).values())


def test_the_reader_reads_what_was_drawn(made):
    directory, files = made
    labels, clicks = read(files[:2])
    with tf.Graph().as_default(), v1.Session() as session:
        data = criteo.load(directory, "train", max_bad_lines=0)
        batches = training_batches(data, DataShard(0, 1), 20_000, 1, 0)
        session.run(batches.initializer)
        features, found = session.run((batches.features, batches.labels))
    np.testing.assert_array_equal(found, labels)
    np.testing.assert_array_equal(features["categories"], clicks.categories)
    np.testing.assert_array_equal(features["present"] == 0, np.isnan(clicks.integers))
    np.testing.assert_array_equal(features["integers"], np.nan_to_num(clicks.integers).astype(np.float32))


def test_about_a_quarter_is_clicked(drawn):
    planted, clicks = drawn
    assert abs(planted.probabilities(clicks).mean() - 0.25) < 0.01


def test_some_fields_are_always_there_and_some_mostly_missing(drawn):
    _, clicks = drawn
    for missing in (np.isnan(clicks.integers).mean(axis=0), (clicks.categories < 0).mean(axis=0)):
        assert missing.min() == 0
        assert 0.7 < missing.max() < 0.8
        assert len(set(missing.round(1))) >= 3


def test_a_few_values_of_a_field_are_most_of_it_and_many_are_rare(drawn):
    counts = np.sort(np.unique(drawn[1].categories[:, 20], return_counts=True)[1])[::-1]
    assert len(counts) > 150
    assert counts[:10].sum() > 0.7 * counts.sum()
    assert counts[1] < 0.8 * counts[0]


def test_the_numbers_of_a_fields_values_are_all_different_and_of_32_bits():
    found = identities(7, 100_000)
    assert len(set(found.tolist())) == 100_000
    assert found.min() >= 0 and found.max() < 2**32


def test_labels_follow_the_planted_probabilities(made):
    directory, files = made
    labels, clicks = read(files)
    probabilities = SyntheticClickModel(seed_of(directory)).probabilities(clicks)
    for low in np.arange(0, 1, 0.2):
        chosen = (low <= probabilities) & (probabilities < low + 0.2)
        noise = np.sqrt((probabilities[chosen] * (1 - probabilities[chosen])).sum()) / chosen.sum()
        assert abs(labels[chosen].mean() - probabilities[chosen].mean()) < 4 * noise


def test_integers_categories_and_pairs_all_count(drawn):
    planted, clicks = drawn
    logits = planted.logits(clicks)
    shuffled = np.random.default_rng(1).permutation(len(logits))
    without = {
        "integers": Clicks(clicks.integers[shuffled], clicks.categories),
        "categories": Clicks(clicks.integers, clicks.categories[shuffled]),
    }
    for name, changed in without.items():
        assert np.corrcoef(logits, planted.logits(changed))[0, 1] < 0.9, name


def test_pairs_of_fields_act_together(drawn):
    """Exchanging one field of two examples changes the logit by an amount that depends on another field."""
    planted, clicks = drawn
    corners = []
    for first, second in ((0, 0), (0, 1), (1, 0), (1, 1)):
        changed = clicks.categories[:1000].copy()
        changed[:, 8], changed[:, 16] = identities(8, 3)[first], identities(16, 5)[second]
        corners.append(planted.logits(Clicks(clicks.integers[:1000], changed)))
    together = corners[0] - corners[1] - corners[2] + corners[3]
    assert np.ptp(together) < 1e-9
    assert abs(together[0]) > 0.05


def test_own_scores_are_those_of_the_planted_probabilities(made):
    directory, files = made
    labels, clicks = read(files[2:])
    probabilities = SyntheticClickModel(3).probabilities(clicks)
    scores = best_scores(directory)
    pairs = probabilities[labels == 1][:, None] - probabilities[labels == 0][None, :]
    assert scores["auc"] == pytest.approx(np.mean((pairs > 0) + 0.5 * (pairs == 0)), abs=1e-9)
    likelihood = labels * np.log(probabilities) + (1 - labels) * np.log(1 - probabilities)
    assert scores["log_loss"] == pytest.approx(-likelihood.mean(), rel=1e-9)
    assert 0.78 < scores["auc"] < 0.88


def test_ties_count_half_in_the_auc():
    assert auc(np.array([1, 0, 1, 0]), np.array([2.0, 2.0, 2.0, 2.0])) == 0.5
    assert auc(np.array([1, 0, 0]), np.array([2.0, 2.0, 1.0])) == 0.75


def test_most_of_the_signal_is_learnable_by_a_model_without_pairs(drawn):
    """Logistic regression, by Newton's method on the frequent categories, on the 40,000 lines; scored on others."""
    planted, clicks = drawn
    fresh = planted.draw(np.random.default_rng(6), 20_000)
    frequent = [_most_frequent(clicks.categories[:, field], 15) for field in range(26)]

    def columns(some):
        logs = np.where(np.isnan(some.integers), 0, np.log1p(np.maximum(np.nan_to_num(some.integers), 0)))
        hot = [some.categories[:, [field]] == values for field, values in enumerate(frequent)]
        return np.column_stack([np.ones(len(logs)), logs, np.isnan(some.integers), *hot]).astype(np.float32)

    random = np.random.default_rng(7)
    x, labels = columns(clicks), random.random(len(clicks.integers)) < planted.probabilities(clicks)
    weights = np.zeros(x.shape[1])
    for _ in range(4):
        p = sigmoid(x @ weights)
        hessian = (x * (p * (1 - p))[:, None].astype(np.float32)).T @ x + 3 * np.eye(x.shape[1])
        weights += np.linalg.solve(hessian, x.T @ (labels - p) - 3 * weights)
    truth = planted.probabilities(fresh)
    clicked = random.random(len(truth)) < truth
    own, learned = auc(clicked, truth), auc(clicked, columns(fresh) @ weights)
    assert own - 0.03 < learned < own - 0.003


def _most_frequent(ids, most):
    values, counts = np.unique(ids, return_counts=True)
    return values[np.argsort(-counts)[:most]]


def test_a_directory_that_is_not_empty_is_left_as_it_is(tmp_path):
    (tmp_path / "mine").write_text("x")
    with pytest.raises(DataError, match="is not empty"):
        write_files(str(tmp_path), lines=10)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_directory_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="cannot be written"):
        write_files(str(tmp_path / "file" / "new"), lines=10)


def test_scores_of_other_data_are_refused(tmp_path):
    (tmp_path / "train.txt").write_text("x")
    with pytest.raises(DataError, match=r"planted\.json.*--make"):
        seed_of(str(tmp_path))


def test_the_command_makes_files_and_tells_their_scores(tmp_path, capsys):
    directory = str(tmp_path / "new")
    assert main(["--make", directory, "--lines", "300", "--parts", "2", "--gz", "--seed", "4"]) == 0
    told = capsys.readouterr().out
    assert "train-00001.txt.gz" in told
    assert "auc 0." in told
    assert main(["--scores", directory]) == 0
    assert capsys.readouterr().out.splitlines() == told.splitlines()[-1:]


def test_without_arguments_the_command_says_how_to_use_it(capsys):
    assert main([]) == 0
    told = capsys.readouterr().out
    assert "--make DIRECTORY" in told
    assert "--measure FILE" in told


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--lines", "3"], "--make"),
        (["--make"], "--make"),
        (["--make", "x", "--lines", "0"], "at least 1"),
        (["--make", "x", "--seed", "-1"], "--seed"),
        (["--make", "x", "--measure", "y"], "--measure"),
        (["--mak", "x"], "--mak"),
        (["there"], "there"),
        (["--scores", "/nowhere"], "/nowhere"),
        (["--measure", "/nowhere"], "/nowhere"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(capsys, monkeypatch, tmp_path, arguments, said):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    told = capsys.readouterr()
    assert len(told.out.splitlines()) == 1
    assert said in told.out
    assert told.err == ""
    assert list(tmp_path.iterdir()) == []


def test_the_command_says_how_many_lines_a_second_it_reads(made):
    from ps_train.models.clicks.benchmark_reader import ReadRate

    program = "import sys\nfrom ps_train.models.clicks.benchmark_reader import measure\n"
    program += "print(measure(sys.argv[1], 0.2).text())"
    done = subprocess.run([sys.executable, "-c", program, str(made[1][0])], capture_output=True, text=True, timeout=60)
    assert re.fullmatch(
        r"\d+ lines in \d\.\d\d s: \d+ lines/s; \d\.\d\d s of one core: \d+ lines/s/core\n", done.stdout
    )
    assert (
        ReadRate(1000, 0.5, 0.25).text() == "1000 lines in 0.50 s: 2000 lines/s; 0.25 s of one core: 4000 lines/s/core"
    )


def test_the_command_needs_no_tensorflow_to_make_files():
    program = "import sys, ps_train.models.clicks.__main__ as m; m.main([]); assert 'tensorflow' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60).returncode == 0
