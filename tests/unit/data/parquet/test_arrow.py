"""pyarrow is imported when it is first used."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from ps_train.data.parquet.arrow import pq

pyarrow = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")


def test_the_package_is_loaded_late_and_once() -> None:
    program = (
        "import sys; from ps_train.data.parquet.arrow import pa, pq\n"
        "assert 'pyarrow' not in sys.modules\n"
        "first = pa.Table; import pyarrow, pyarrow.parquet\n"
        "assert first is pyarrow.Table is pa.Table and vars(pa)['Table'] is first\n"
        "assert pq.ParquetFile is pyarrow.parquet.ParquetFile\n"
        "try: pa.no_such_name\n"
        "except AttributeError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0 and "no_such_name" in done.stdout, done.stderr


def test_a_late_module_travels_by_its_name() -> None:
    there = pickle.loads(pickle.dumps(pq))
    assert there.ParquetFile is pyarrow.parquet.ParquetFile
