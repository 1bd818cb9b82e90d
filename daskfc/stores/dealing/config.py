"""The keys of a storage file, with their types and ranges."""

from __future__ import annotations

import codecs
import re
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from daskfc.checks import Section
from daskfc.stores.dealing.partitions import PARTITIONS
from daskfc.stores.dealing.scaling import SCALINGS, Scaling
from daskfc.stores.layout.locations import expand
from daskfc.stores.layout.spelling import word_map

_VIEW_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}\Z")
# a password between user and host, or as an option, that is no variable of the environment
_PASSWORD = re.compile(
    r"//[^/@:?]*:(?!\$\{\w+\}@)[^/]*@|(?i:pass(?:word|wd)?|pwd|token|secret)=(?!\$\{\w+\}(?:&|;|$))"
)
_TYPES = (
    "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"
)  # fmt: skip
_NEEDED = {
    "iid": ("clients",),
    "label-skew": ("clients", "skew"),
    "dirichlet": ("clients", "alpha"),
    "vertical": ("clients",),
    "grid": ("clients", "column_groups"),
    "views": (),
}
_ALLOWED = {
    **_NEEDED,
    "vertical": ("clients", "columns", "graph", "graph_share"),
    "views": ("overlap", "clients_per_view"),
}  # keys beside seed

Seed = Annotated[int, Field(ge=0, lt=2**63, strict=True)]
Count = Annotated[int, Field(ge=1, strict=True)]


class SubsampleConfig(Section):
    """A uniform subsample of n samples, without replacement."""

    n: Count
    seed: Seed = 0


class GraphConfig(Section):
    """A symmetric graph of features, in which each sample is joined to its nearest `neighbours`."""

    neighbours: Count


class PivotConfig(Section):
    """A long table: the columns that say whose each measurement is, of what, and its value.

    `several` says what several values of one sample and measurement become; else they are refused.
    """

    rows: str
    names: str
    values: str
    several: Literal["mean", "median", "first", "last", "min", "max"] | None = None


_Censored = Literal["limit", "half", "missing"]
_Factor = Annotated[float, Field(allow_inf_nan=False)]


class _FileConfig(Section):
    """Keys of one file with samples, beside its path; each may say what holds for one column."""

    format: str | None = None
    labels: str | None = None
    ids: str | None = None
    columns: tuple[str, ...] | None = Field(default=None, min_length=1)
    delimiter: str | None = Field(default=None, min_length=1, max_length=1)
    header: bool | None = None
    decimal: str | None = Field(default=None, min_length=1, max_length=1)
    thousands: str | None = Field(default=None, min_length=1, max_length=1)
    na_values: tuple[str, ...] | dict[str, tuple[str, ...]] | None = Field(
        default=None, min_length=1
    )
    encoding: str | None = None
    dtype: str | dict[str, str] | None = None
    categorical: tuple[str, ...] | None = Field(default=None, min_length=1)
    dates: tuple[str, ...] | None = Field(default=None, min_length=1)
    date_format: str | dict[str, str] | None = None
    censored: _Censored | dict[str, _Censored] | None = None
    multiply: dict[str, _Factor] | None = None
    rename: dict[str, str] | None = None
    pivot: PivotConfig | None = None
    sheet: str | None = None
    sql: str | None = None
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
        if isinstance(value, dict):
            return {str(key): cls._words(own) for key, own in value.items()}
        if value is None:
            return None
        return [str(v) for v in (value if isinstance(value, list | tuple) else [value])]

    @field_validator("rename", mode="before")
    @classmethod
    def _names_as_text(cls, value: Any) -> Any:
        return {str(k): str(v) for k, v in value.items()} if isinstance(value, dict) else value

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
        no_numbers = (self.ids, self.labels, *(self.categorical or ()))
        if others := [name for name in self.multiply or () if name in no_numbers]:
            raise ValueError(f"'multiply' has {others[0]!r}, which is no column of numbers")
        formats = self.date_format if isinstance(self.date_format, dict) else {}
        if self.date_format and not self.dates:
            raise ValueError("'date_format' means something to columns that 'dates' names")
        if others := [name for name in formats if name not in (self.dates or ())]:
            raise ValueError(f"'date_format' has {others[0]!r}, which 'dates' does not name")
        if self.pivot is not None and (self.categorical or self.dates or self.labels):
            raise ValueError(
                "'pivot' makes columns of numbers; leave out 'categorical', 'dates' and 'labels'"
            )
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
    """The file of one view, joined by ids; categorical columns and missing values are refused."""

    path: str
    features: str | None = None

    def source(self) -> SourceConfig:
        """Return the file as a source of its own."""
        return SourceConfig.model_validate(self.model_dump())


class SourceConfig(_FileConfig):
    """Where samples come from: a bundled data set, a file, a database, or a file for each view.

    Several `features` name views' arrays; for idx, `labels` is a path; `columns` are features, all
    but labels and ids by default; `words` replace words, ``{M: male}`` or ``{sex: {M: male}}``.
    """

    dataset: str | None = None
    path: str | None = None
    uri: str | None = None
    views: dict[str, ViewConfig] | None = Field(default=None, min_length=2)
    features: str | tuple[str, ...] | None = None
    adjacency: str | None = None
    scale: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    scaling: Scaling | dict[str, Scaling] | None = None
    subsample: SubsampleConfig | None = None
    graph: GraphConfig | None = None

    @property
    def file(self) -> str:
        """Path or URL of the file, ``~`` and variables replaced; of a database only its name."""
        return self.where if self.path is None else expand(self.path)

    @property
    def array(self) -> str | None:
        """Name of the array of features, where `features` names one."""
        return self.features if isinstance(self.features, str) else None

    @property
    def where(self) -> str:
        """The source in a word, for messages."""
        if self.views is not None:
            return f"views {', '.join(self.views)}"
        if self.uri is not None:  # without user, password and options
            return f"the database {re.sub(r'//.*@', '//', self.uri).partition('?')[0]}"
        return str(self.path or self.dataset)

    @field_validator("features", mode="before")
    @classmethod
    def _names_of_arrays(cls, value: Any) -> Any:
        several = isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)
        if value is None or isinstance(value, str) or (several and len(set(value)) > 1):
            return value
        raise ValueError("must be the name of an array, or a list of at least two names of views")

    @model_validator(mode="after")
    def _no_password(self) -> Self:
        # the value itself is in no error: this rule is one of the whole section
        if self.uri is not None and _PASSWORD.search(self.uri):
            raise ValueError(
                "'uri' must hold no password; write ${NAME} in its place, a variable of the "
                "environment, or leave it to the database's own password file"
            )
        return self

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
        origins = (self.dataset, self.path, self.uri, self.views)
        if sum(origin is not None for origin in origins) != 1:
            raise ValueError("exactly one of 'dataset', 'path', 'uri' and 'views' must be given")
        if self.uri is not None and self.sql is None:
            raise ValueError("'uri' names a database; 'sql' must say what to select there")
        if self.scale is not None and self.scaling is not None:
            raise ValueError("'scale' and 'scaling' undo each other; leave one of them out")
        return self


class PartitionConfig(Section):
    """How samples are dealt: a key of `daskfc.stores.PARTITIONS`, vertical, grid or views.

    `graph_share` is each client's share of all edges, in [1 / clients, 1], by default 1 / clients
    without overlap; `overlap` is the share of samples that all views have, 1 by default. Of a grid
    each column is in one of `column_groups`, which as many clients have as there are parts of rows.
    """

    scheme: str
    clients: Count | None = None
    skew: float | None = Field(default=None, ge=0, le=1)
    alpha: float | None = Field(default=None, ge=1e-3, allow_inf_nan=False)
    columns: Literal["contiguous", "random"] | None = None
    graph: Literal["all", "split"] | None = None
    graph_share: float | None = Field(default=None, gt=0, le=1)
    column_groups: Count | None = None
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
        """Return every client's row indices, from evaluation labels of shape (n,)."""
        extra = {key: getattr(self, key) for key in _NEEDED[self.scheme] if key != "clients"}
        return PARTITIONS[self.scheme](labels, self.clients, seed=self.seed, **extra)


class LayoutConfig(Section):
    """How a store is laid out: rows of a chunk, and the stored type of features."""

    chunk_rows: Count = 1024
    dtype: (
        Literal[
            "float32", "float64", "uint8", "uint16", "uint32", "int8", "int16", "int32", "int64"
        ]
        | None
    ) = None


class ClientConfig(Section):
    """A client with a `store` (None if only its site knows it), or a `source`; or a path alone."""

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
