"""Chem97: who got grade B or better in A-level chemistry, 31,022 pupils of 2,410 schools in 131 local authorities.

The label has two values, because the six grades are ordered and accuracy does not see that: to take a B for an A counts
as much as to take an E for an A.  On six grades no model that we tried is right for more than 38 % of the pupils, on
"B or better" for 78 %; always the same answer gives 22 % and 58 %.

A pupil becomes eleven numbers.  They are scaled by constants of public knowledge and by no statistic of the data.  The
table's own column ``gcsecnt`` is not used, because the mean of all pupils was taken off it.

Reference: Fielding, Yang and Goldstein, "Multilevel ordinal models for examination grades" (2003).
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pausefl.errors import DataMissingError
from pausefl.learn.datasets import Dataset
from pausefl.learn.r_package import Table

OWNERS = {"chem97": "lea", "chem97-schools": "school"}
"""The column that says which client holds a pupil: the local education authority, or the school."""

LEAST = {"chem97": 1, "chem97-schools": 10}
"""How many pupils a client has at least to train on.

Smaller schools are left out of training: noise that hides one of so few pupils also hides what they have in common.
"""

PUPILS = 31_022
SHA256 = "2b9d7f97b1f1ee391a7d847a5c873b2ef0528298e8ed0d50260f152e28d68575"
"""Of the columns that are used, as numbers."""

_COLUMNS = ("lea", "school", "score", "gender", "age", "gcsescore")
_GRADE_B = 8.0
_GCSE = 8
"""The best GCSE grade; the worst is 0."""
_HALF_YEAR = 6.0
"""Pupils of one year differ in age by at most twelve months; the column has its zero in the middle."""
_SEED = 1997

Columns: TypeAlias = npt.NDArray[np.float64]


def chem97(name: str, table: Table) -> Dataset:
    """Return the data set, once the table was checked; a fifth of the pupils, always the same ones, is for testing."""
    columns = checked_columns(table)
    by_name = dict(zip(_COLUMNS, columns.T, strict=True))
    rows = features(by_name["gcsescore"], by_name["gender"], by_name["age"])[:, None, None]
    labels = (by_name["score"] >= _GRADE_B).astype(np.int64)
    order = np.random.Generator(np.random.PCG64(_SEED)).permutation(len(labels))
    test, train = (np.sort(part) for part in np.split(order, [len(order) // 5]))
    holders = by_name[OWNERS[name]]
    _, owners, sizes = np.unique(holders[train], return_inverse=True, return_counts=True)
    train = train[sizes[owners] >= LEAST[name]]
    _, owners = np.unique(holders[train], return_inverse=True)
    return Dataset(name, rows[train], labels[train], rows[test], labels[test], owners.astype(np.int64))


def features(gcse: Columns, female: Columns, age: Columns) -> npt.NDArray[np.float32]:
    """Return a row per pupil: the GCSE average shared between the two grades it lies between, sex, and age.

    >>> features(np.array([6.25]), np.array([1.0]), np.array([-3.0]))[0, 5:].tolist()
    [0.0, 0.75, 0.25, 0.0, 1.0, -0.5]
    """
    lower = np.clip(np.floor(gcse), 0, _GCSE - 1).astype(np.int64)
    rows = np.zeros((len(gcse), _GCSE + 3), dtype=np.float32)
    number = np.arange(len(gcse))
    rows[number, lower] = 1.0 - (gcse - lower)
    rows[number, lower + 1] = gcse - lower
    rows[:, _GCSE + 1] = female
    rows[:, _GCSE + 2] = age / _HALF_YEAR
    return rows


def checked_columns(table: Table) -> Columns:
    """Return the columns that are used as numbers, if they are those of the published table."""
    for name in _COLUMNS:
        if name not in table:
            raise DataMissingError(f"the table has no column {name}")
    columns = np.column_stack([_numbers(name, table[name]) for name in _COLUMNS])
    if len(columns) != PUPILS:
        raise DataMissingError(f"the table has {len(columns)} pupils, but must have {PUPILS}")
    if (found := digest(columns)) != SHA256:
        raise DataMissingError(f"the table has checksum {found}, but must have {SHA256}")
    return columns


def digest(columns: Columns) -> str:
    """Return the checksum of the columns."""
    return sha256(columns.astype("<f8").tobytes()).hexdigest()


def _numbers(name: str, column: npt.NDArray[Any]) -> Columns:
    try:
        return (column == "F" if name == "gender" else column).astype(np.float64)
    except ValueError:
        raise DataMissingError(f"the table's column {name} does not hold numbers") from None
