"""What --data accepts, and the words with which it refuses the rest."""

import numpy as np
import pytest

from deeplimits.cli.data import load
from deeplimits.errors import InputError


@pytest.mark.parametrize(
    ("name", "rows", "features"),
    [("digits", 1797, 64), ("wine", 178, 13), ("breast-cancer", 569, 30), ("diabetes", 442, 10)],
)
def test_bundled_tables(name, rows, features):
    table = load(name)
    assert table.rows.shape == (rows, features)
    assert table.rows.dtype == np.float64
    np.testing.assert_allclose((table.rows**2).mean(axis=1), 1.0, rtol=1e-12)
    assert table.description.startswith(f"{name}: {rows} of {rows} rows; {features} features")


def test_rows_are_spread_evenly():
    chosen, every = load("wine", 3, "none"), load("wine", None, "none")
    np.testing.assert_array_equal(chosen.rows, every.rows[[0, 88, 177]])
    assert "3 of 178 rows, spread evenly" in chosen.description


def test_scales(tmp_path):
    X = np.array([[3.0, 4.0], [6.0, 1.0], [9.0, 7.0]])
    np.save(tmp_path / "x.npy", X)
    path = str(tmp_path / "x.npy")
    np.testing.assert_array_equal(load(path, scale="none").rows, X)
    np.testing.assert_allclose(load(path, scale="unit").rows[0], np.array([3, 4]) / np.sqrt(12.5))
    standard = (X - X.mean(axis=0)) / X.std(axis=0)
    norms = np.sqrt((standard**2).mean(axis=1, keepdims=True))
    np.testing.assert_allclose(load(path, scale="standard").rows, standard / norms)


def test_npz_takes_x_or_the_only_table(tmp_path):
    X = np.arange(6.0).reshape(3, 2) + 1
    np.savez(tmp_path / "named.npz", X=X, y=np.zeros((3, 2)))
    np.savez(tmp_path / "only.npz", table=X, y=np.zeros(3))
    for name in ("named.npz", "only.npz"):
        np.testing.assert_array_equal(load(str(tmp_path / name), scale="none").rows, X)
    np.savez(tmp_path / "two.npz", a=X, b=X)
    with pytest.raises(InputError, match=r"no array X and 2 tables \(found a \(3, 2\), b \(3, 2\)\)"):
        load(str(tmp_path / "two.npz"))


@pytest.mark.parametrize(
    "text", ["a,b\n1,2\n3,4\n", "1,2\n3,4\n", "1;2\n3;4\n", "\ufeffa\tb\n1\t2\n3\t4\n", "1,2\r\n3,4\r\n\r\n"]
)
def test_csv_with_and_without_a_header(tmp_path, text):
    (tmp_path / "x.csv").write_text(text, encoding="utf-8", newline="")
    np.testing.assert_array_equal(load(str(tmp_path / "x.csv"), scale="none").rows, [[1, 2], [3, 4]])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("size,species\n1,setosa\n2,virginica\n", r"'species' holds text \('setosa' at row 0\).*drop that column"),
        ("1,setosa\n2,virginica\n", r"'column 1' holds text \('setosa' at row 0\)"),
        ("a,b\n1,\n", r"'b' has no value at row 0"),
        ("a,b\n1,nan\n", r"nan at row 0, column 1"),
        ("a,b\n1,inf\n", r"inf at row 0, column 1"),
        ("a,b\n1\n", r"row 0 has 1 cells, the first has 2"),
        ("", r"the file is empty"),
        ("a,b\n", r"not a table"),
    ],
)
def test_csv_refusals(tmp_path, text, words):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(InputError, match=words):
        load(str(tmp_path / "x.csv"))


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros(3), r"shape \(3,\) is not a table"),
        (np.zeros((0, 3)), r"shape \(0, 3\) is not a table"),
        (np.array([["a", "b"]]), "does not hold real numbers"),
        (np.array([[1j, 2]]), "does not hold real numbers"),
        (np.array([[{}, 1]], dtype=object), "not an array of numbers"),
        (np.array([[1.0, np.nan]]), "nan at row 0, column 1"),
        (np.array([[1.0, 2.0], [0.0, 0.0]]), r"row 1 is zero and cannot be scaled.*--scale none"),
    ],
)
def test_npy_refusals(tmp_path, array, words):
    np.save(tmp_path / "x.npy", array, allow_pickle=True)
    with pytest.raises(InputError, match=words):
        load(str(tmp_path / "x.npy"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("digit",), "did you mean 'digits'"),
        (("nowhere.csv",), "there is no file 'nowhere.csv'"),
        (("x.xlsx",), "or a .npy, .npz or .csv file"),
        (("wine", 179), r"179 rows asked for, wine has 178"),
        (("wine", 0), "0 rows cannot be taken"),
        (("wine", 5, "unti"), "did you mean 'unit'"),
    ],
)
def test_refusals(arguments, words):
    with pytest.raises(InputError, match=words):
        load(*arguments)
