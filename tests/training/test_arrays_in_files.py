"""Arrays of all types that variables have go into files and come back."""

import ml_dtypes
import numpy as np
import pytest

from keras_bert.training.run_folder import read_arrays, write_arrays

TYPES = ["float64", "float32", "float16", "int64", "bool", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int4"]


@pytest.mark.parametrize("name", TYPES)
def test_an_array_comes_back_with_its_type(tmp_path, name):
    dtype = np.dtype(name if name in np.sctypeDict else getattr(ml_dtypes, name))
    arrays = {"model/0": np.arange(6).reshape(2, 3).astype(dtype), "model/1": np.array(1).astype(dtype)}
    write_arrays(tmp_path / "state.npz", arrays)
    found = read_arrays(tmp_path / "state.npz")
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == dtype
        np.testing.assert_array_equal(found[name].astype("float64"), array.astype("float64"))
