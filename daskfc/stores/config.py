"""What a storage file may say: its keys, their types and their ranges."""

from __future__ import annotations

import codecs
import re
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from daskfc.stores.partitions import PARTITIONS
from daskfc.stores.scaling import SCALINGS, Scaling
from daskfc.stores.spelling import word_map

__all__ = [
    "ClientConfig",
    "LayoutConfig",
    "PartitionConfig",
    "SourceConfig",
    "SubsampleConfig",
    "ViewConfig",
    "client_name",
]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}\Z")
_SERVER = re.compile(r"server(-[1-9]\d*)?")  # and its further workers
_VIEW_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}\Z")
_TYPES = (
    "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"
)  # fmt: skip
_NEEDED = {
    "iid": ("clients",),
    "label-skew": ("clients", "skew"),
    "dirichlet": ("clients", "alpha"),
    "vertical": ("clients",),
    "views": (),
}
_ALLOWED = {
    **_NEEDED,
    "vertical": ("clients", "columns", "graph", "graph_share"),
    "views": ("overlap", "clients_per_view"),
}  # keys beside seed

Seed = Annotated[int, Field(ge=0, lt=2**63, strict=True)]
Count = Annotated[int, Field(ge=1, strict=True)]


def client_name(name: str) -> str:
    """Return a client's name if it can be one.

    Raises
    ------
    ValueError
        When it is the server's, or has characters that file names or Dask resources may not have.

    Examples
    --------
    >>> from daskfc.stores.config import client_name
    >>> client_name("hospital-a")
    'hospital-a'
    """
    if name in ("clients", "caller") or _SERVER.fullmatch(name):
        raise ValueError(f"a client may not be called {name!r}, which means another party")
    if not _NAME.match(name):
        raise ValueError(
            "a client's name must be 1 to 63 letters, digits, '-', '_' or '.', the first a "
            "letter or digit"
        )
    return name


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SubsampleConfig(_Section):
    """A uniform subsample without replacement.

    Parameters
    ----------
    n : int
        Samples to keep.
    seed : int
        Which ones.
    """

    n: Count
    seed: Seed = 0


class GraphConfig(_Section):
    """A graph made from the features.

    Parameters
    ----------
    neighbours : int
        Each sample is joined to so many nearest ones, and to those that it is near to.
    """

    neighbours: Count


class _FileConfig(_Section):
    """Keys of one file with samples, beside its path."""

    format: str | None = None
    labels: str | None = None
    ids: str | None = None
    columns: tuple[str, ...] | None = Field(default=None, min_length=1)
    delimiter: str | None = Field(default=None, min_length=1, max_length=1)
    header: bool | None = None
    decimal: str | None = Field(default=None, min_length=1, max_length=1)
    thousands: str | None = Field(default=None, min_length=1, max_length=1)
    na_values: tuple[str, ...] | None = Field(default=None, min_length=1)
    encoding: str | None = None
    dtype: str | dict[str, str] | None = None
    categorical: tuple[str, ...] | None = Field(default=None, min_length=1)
    dates: tuple[str, ...] | None = Field(default=None, min_length=1)
    missing: Literal["keep"] | None = None
    words: dict[str, str | dict[str, str]] | None = None

    @field_validator("words", mode="before")
    @classmethod
    def _words_as_text(cls, value: Any) -> Any:
        return None if value is None else word_map(value)

    @field_validator("labels", "ids", mode="before")
    @classmethod
    def _numbered_columns(cls, value: Any) -> Any:
        # YAML reads the column names of a csv without header as numbers
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value

    @field_validator("na_values", mode="before")
    @classmethod
    def _words(cls, value: Any) -> Any:
        if value is None:
            return None
        return [str(v) for v in (value if isinstance(value, list | tuple) else [value])]

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, value: str | None) -> str | None:
        try:
            return value if value is None else codecs.lookup(value).name
        except LookupError:
            raise ValueError("must be the name of an encoding, such as utf-8 or latin-1") from None

    @field_validator("dtype")
    @classmethod
    def _types(cls, value: str | dict[str, str] | None) -> str | dict[str, str] | None:
        for name in value.values() if isinstance(value, dict) else [value] if value else []:
            if name not in _TYPES:
                raise ValueError(f"must be one of {', '.join(_TYPES)}, or columns and one of these")
        return value

    @model_validator(mode="after")
    def _one_kind_a_column(self) -> Self:
        sides = {name for name in (self.labels, self.ids) if name is not None}
        words, dates = set(self.categorical or ()), set(self.dates or ())
        if twice := sorted((words & dates) | ((words | dates) & sides)):
            raise ValueError(
                f"column {twice[0]!r} must be one of categorical, a date, the labels and the ids"
            )
        return self

    @model_validator(mode="after")
    def _words_of_columns(self) -> Self:
        columns = [name for name, to in (self.words or {}).items() if isinstance(to, dict)]
        if self.words and not self.categorical:
            raise ValueError("'words' means something to columns that 'categorical' names")
        if others := [name for name in columns if name not in (self.categorical or ())]:
            raise ValueError(f"'words' has {others[0]!r}, which 'categorical' does not name")
        return self

    @model_validator(mode="after")
    def _marks_differ(self) -> Self:
        marks = [self.delimiter, self.decimal, self.thousands]
        given = [mark for mark in marks if mark is not None]
        if len(set(given)) < len(given):
            raise ValueError("'delimiter', 'decimal' and 'thousands' must be different characters")
        return self

    @field_validator("columns", "categorical", "dates", mode="before")
    @classmethod
    def _numbered_list(cls, value: Any) -> Any:
        return [str(v) for v in value] if isinstance(value, list | tuple) else value


class ViewConfig(_FileConfig):
    """The file of one view, which is joined with the others by the ids of its samples.

    Parameters
    ----------
    path : str
        File or URL, as in `SourceConfig`.
    features : str, optional
        Name of an array, as in `SourceConfig`.
    format, labels, ids, columns, delimiter, header, decimal, thousands, na_values, encoding, dtype
        As in `SourceConfig`; so are dates. Categorical columns and missing values are not kept.
    """

    path: str
    features: str | None = None

    def source(self) -> SourceConfig:
        """Return the file as a source of its own."""
        return SourceConfig.model_validate(self.model_dump())


class SourceConfig(_FileConfig):
    """Where samples come from: a bundled data set, a file, or a file for each view.

    Parameters
    ----------
    dataset : str, optional
        A data set that scikit-learn carries, or digits-views, three views of its digits; or else
        `path`.
    path : str, optional
        File or URL; environment variables as ``${NAME}``, relative paths from the working
        directory.
    views : mapping of str to ViewConfig, optional
        In place of both, a file for each view by the view's name, joined by ids. A view may lack
        samples.
    format : str, optional
        Reader; guessed from the path's suffix by default.
    features, labels, ids : str, optional
        Names of arrays (npz, zarr, mat) or of columns (tables: labels and ids); for idx,
        `labels` is the path of the label file. For views of their own files, `labels` is a column
        of whichever tables have it. A list of at least two `features` names the arrays of as many
        views (npz, mat).
    adjacency : str, optional
        Name of the graph's array in a mat file, where it is none of the usual ones.
    columns : sequence of str, optional
        Feature columns of a table (csv, parquet, feather); all but labels and ids by default.
    delimiter : str, optional
        Of csv; a comma by default, a tab for .tsv.
    header : bool, optional
        Whether the first line of a csv names the columns (default); without, they are 0, 1, ...
    decimal, thousands : str, optional
        Of numbers in a csv: what begins the fraction, a dot by default, and what groups digits.
    na_values : str or sequence of str, optional
        What stands for a missing value in a csv, beside the empty field, NA, null and the like.
    encoding : str, optional
        Of a csv; utf-8 by default.
    dtype : str or mapping of str to str, optional
        NumPy's name of the type that features of a csv must have, or columns and one each; values
        that it cannot hold are refused.
    categorical : sequence of str, optional
        Columns of a table that hold words; the store keeps numbers for them and the words
        beside. ``prepare: [one-hot]`` makes features of them.
    words : mapping, optional
        What is written in place of a word of these columns, as ``{M: male}``, or by column, as
        ``{sex: {M: male}}``. Without, equal numbers are one word, 1 and 1.0, and blanks around a
        word do not count.
    dates : sequence of str, optional
        Columns of a table that hold dates, as 2026-03-31 with or without a time; they
        become days since 1970-01-01.
    missing : "keep", optional
        Cells of a table may be empty; ``prepare: [impute]`` fills them. By default they
        are refused.
    scale : float, optional
        Every feature is multiplied by it.
    scaling : str or mapping of str to str, optional
        min-max, min-max-all, standard or none, see `daskfc.stores.scaling`; by view where views
        differ.
    subsample : SubsampleConfig, optional
        Keep only some samples.
    graph : GraphConfig, optional
        Join samples by their features, where the source has no graph.
    """

    dataset: str | None = None
    path: str | None = None
    views: dict[str, ViewConfig] | None = Field(default=None, min_length=2)
    features: str | tuple[str, ...] | None = None
    adjacency: str | None = None
    scale: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    scaling: Scaling | dict[str, Scaling] | None = None
    subsample: SubsampleConfig | None = None
    graph: GraphConfig | None = None

    @property
    def array(self) -> str | None:
        """Name of the array of features, where `features` names one."""
        return self.features if isinstance(self.features, str) else None

    @property
    def where(self) -> str:
        """The source in a word, for messages."""
        if self.views is not None:
            return f"views {', '.join(self.views)}"
        return str(self.path or self.dataset)

    @field_validator("features", mode="before")
    @classmethod
    def _names_of_arrays(cls, value: Any) -> Any:
        several = isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)
        if value is None or isinstance(value, str) or (several and len(set(value)) > 1):
            return value
        raise ValueError("must be the name of an array, or a list of at least two names of views")

    @field_validator("scaling", mode="before")
    @classmethod
    def _kinds(cls, value: Any) -> Any:
        kinds = list(value.values()) if isinstance(value, dict) else [value]
        if value is None or (kinds and all(kind in SCALINGS for kind in kinds)):
            return value
        raise ValueError(f"must be one of {', '.join(SCALINGS)}, or views and one of these each")

    @field_validator("views")
    @classmethod
    def _view_names(cls, views: dict[str, ViewConfig] | None) -> dict[str, ViewConfig] | None:
        for name in views or {}:
            if not _VIEW_NAME.match(name):
                raise ValueError(
                    "a view's name must be 1 to 63 letters, digits, '-' or '_', the first a "
                    f"letter or digit, and no {name!r}"
                )
        return views

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if sum(origin is not None for origin in (self.dataset, self.path, self.views)) != 1:
            raise ValueError("exactly one of 'dataset', 'path' and 'views' must be given")
        if self.scale is not None and self.scaling is not None:
            raise ValueError("'scale' and 'scaling' undo each other; leave one of them out")
        return self


class PartitionConfig(_Section):
    """How samples are dealt to clients.

    Parameters
    ----------
    scheme : str
        A key of `daskfc.stores.PARTITIONS`, vertical or views.
    clients : int, optional
        How many; for all schemes but views.
    skew : float, optional
        For label-skew: the paper's p, in [0, 1].
    alpha : float, optional
        For dirichlet: concentration, at least 0.001.
    columns : {"contiguous", "random"}, optional
        For vertical: which columns go together; contiguous by default.
    graph : {"all", "split"}, optional
        For vertical: whether every client has the whole graph (default) or each edge is one
        client's.
    graph_share : float, optional
        For a split graph: what each client holds of all edges, in [1 / clients, 1]; by default
        1 / clients, where no edge is held twice.
    overlap : float, optional
        For views: the share of the samples that all views have, in [0, 1], 1 by default. Every
        other sample keeps some views, at least one and not all.
    clients_per_view : int, optional
        For views: to how many clients the samples of each view are dealt; 1 by default.
    seed : int
        Which samples, columns or edges.
    """

    scheme: str
    clients: Count | None = None
    skew: float | None = Field(default=None, ge=0, le=1)
    alpha: float | None = Field(default=None, ge=1e-3, allow_inf_nan=False)
    columns: Literal["contiguous", "random"] | None = None
    graph: Literal["all", "split"] | None = None
    graph_share: float | None = Field(default=None, gt=0, le=1)
    overlap: float | None = Field(default=None, ge=0, le=1)
    clients_per_view: Count | None = None
    seed: Seed = 0

    @field_validator("scheme")
    @classmethod
    def _known(cls, scheme: str) -> str:
        if scheme not in _NEEDED:
            raise ValueError(f"must be one of {', '.join(sorted(_NEEDED))}")
        return scheme

    @model_validator(mode="after")
    def _keys_of_scheme(self) -> Self:
        for key in sorted({key for keys in _ALLOWED.values() for key in keys}):
            given = getattr(self, key) is not None
            needed, allowed = key in _NEEDED[self.scheme], key in _ALLOWED[self.scheme]
            if needed > given or given > allowed:
                verb = "needs" if needed else "has no"
                raise ValueError(f"scheme {self.scheme!r} {verb} key {key!r}")
        if self.graph_share is not None and self.clients is not None:
            if self.graph != "split":
                raise ValueError("'graph_share' means something to 'graph: split' only")
            if self.graph_share * self.clients < 1 - 1e-9:  # 1/3 is not exact
                raise ValueError(
                    f"'graph_share' must be in [1/{self.clients}, 1], for together "
                    f"{self.clients} clients hold every edge; got {self.graph_share}"
                )
        return self

    def deal(self, labels: np.ndarray) -> list[np.ndarray]:
        """Return every client's row indices.

        Parameters
        ----------
        labels : ndarray of shape (n,), int
            Evaluation labels; for iid only their number counts.
        """
        extra = {key: getattr(self, key) for key in _NEEDED[self.scheme] if key != "clients"}
        return PARTITIONS[self.scheme](labels, self.clients, seed=self.seed, **extra)


class LayoutConfig(_Section):
    """How a store is laid out.

    Parameters
    ----------
    chunk_rows : int
        Rows of one chunk.
    dtype : str, optional
        Stored type of the features, see `daskfc.stores.StoreWriter`.
    """

    chunk_rows: Count = 1024
    dtype: (
        Literal[
            "float32", "float64", "uint8", "uint16", "uint32", "int8", "int16", "int32", "int64"
        ]
        | None
    ) = None


class ClientConfig(_Section):
    """A client whose store exists, or is made of files of its own.

    Parameters
    ----------
    store : str, optional
        URL or path of the store; it may stand alone in place of the mapping.
    source : SourceConfig, optional
        In its place, where the client's samples come from. With neither, the client's own site
        knows its store.
    """

    store: str | None = Field(default=None, min_length=1)
    source: SourceConfig | None = None

    @model_validator(mode="before")
    @classmethod
    def _path_alone(cls, value: Any) -> Any:
        return {"store": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if self.store is not None and self.source is not None:
            raise ValueError("a client has a 'store' that exists or a 'source', not both")
        if not self.model_fields_set:
            raise ValueError("a client must have a 'store' that exists, or a 'source'")
        return self
