"""The refused names of tf.contrib: each is found by its module, and advises."""

from __future__ import annotations

import pytest

from ps_train.compat.tf1 import contrib_refused as refused

GROUPS = {
    "tpu": refused.TPU, "cluster_resolver": refused.CLUSTER_RESOLVER, "distribute": refused.DISTRIBUTE,
    "opt": refused.OPT, "seq2seq": refused.SEQ2SEQ,
}  # fmt: skip


@pytest.mark.parametrize("module", GROUPS)
def test_each_name_says_where_it_is_and_what_to_do(module: str) -> None:
    for name, value in GROUPS[module].items():
        with pytest.raises(NotImplementedError, match=rf"^tf\.contrib\.{module}\.{name} is not supported: .{{20}}"):
            value()
        assert getattr(refused, name) in [group[name] for group in GROUPS.values() if name in group]


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("MirroredStrategy", "leave the strategy out"),
        ("DropStaleGradientOptimizer", "--update=bounded"),
        ("ShampooOptimizer", "use an optimizer of tf.train"),
        ("ElasticAverageOptimizer", "--outer_optimizer=elastic"),
        ("BeamSearchDecoder", "write it in the script"),
        ("TPUClusterResolver", "describe the cluster in TF_CONFIG"),
    ],
)
def test_the_advice_fits_the_name(name: str, advice: str) -> None:
    with pytest.raises(NotImplementedError) as caught:
        getattr(refused, name)()
    assert advice in str(caught.value)


def test_another_name_is_not_there() -> None:
    with pytest.raises(AttributeError):
        _ = refused.GradientDescentOptimizer
