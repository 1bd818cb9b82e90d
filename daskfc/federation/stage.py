"""A stage of a fit, and a notice beside, as whoever watches is told of them."""

from typing import Self

__all__ = ["Notice", "Stage"]


class Notice(str):
    """What whoever watches should be able to read again, whatever stage comes after it.

    Examples
    --------
    >>> from daskfc.federation.stage import Notice
    >>> print(Notice("Dask's dashboard: http://127.0.0.1:8787/status"))
    Dask's dashboard: http://127.0.0.1:8787/status
    """

    __slots__ = ()


class Stage(str):
    """The name of a stage, which knows what is counted in it.

    Parameters
    ----------
    name : str
        In words.
    unit : str
        What is counted, in the plural; nothing where nothing is.

    Examples
    --------
    >>> from daskfc.federation.stage import Stage
    >>> Stage("averaging", "rounds") == "averaging"
    True
    >>> Stage("averaging", "rounds").with_unit
    'averaging (rounds)'
    """

    __slots__ = ("unit",)
    unit: str

    def __new__(cls, name: str, unit: str = "") -> Self:
        """See the class."""
        stage = super().__new__(cls, name)
        stage.unit = unit
        return stage

    @property
    def with_unit(self) -> str:
        """The name, and what is counted in it."""
        return f"{self} ({self.unit})" if self.unit else str(self)
