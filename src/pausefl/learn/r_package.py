"""One table out of an R package: its two lazy-load files (an index and a database) as columns of numpy arrays.

These are the files that R's own ``lazyLoad`` reads.  The index tells where each object lies in the database, and there
stand the object's length, in four bytes, and the object itself, compressed by zlib.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy.typing as npt

from pausefl.errors import DataMissingError, MissingExtraError

FILES = ("Rdata.rdx", "Rdata.rdb")
"""The index and the database, as they are called in a package's ``data`` folder."""

Table: TypeAlias = Mapping[str, npt.NDArray[Any]]


def read_table(index: bytes, database: bytes, name: str) -> Table:
    """Return the columns of a data frame by their names; a factor comes as its texts."""
    try:
        import rdata
    except ImportError:
        raise MissingExtraError(
            "data from R packages needs the 'data' extra; run: pip install 'pausefl[data]'"
        ) from None

    def decoded(content: bytes) -> Any:
        return rdata.conversion.convert(rdata.parser.parse_data(content, extension=".rds"))

    try:
        start, length = (int(number) for number in decoded(index)["variables"][name])
        frame = decoded(zlib.decompress(database[start + 4 : start + length]))
        return {str(column): frame[column].to_numpy() for column in frame}
    except Exception as error:  # whatever a reader of somebody else's format may raise
        raise DataMissingError(f"{' and '.join(FILES)} hold no table {name} ({type(error).__name__})") from None
