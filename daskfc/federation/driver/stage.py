"""Stages of a fit, and notices, by which its progress is reported to the caller."""

from typing import Self

__all__ = ["Notice", "Stage"]


class Notice(str):
    """A progress message that stays readable when the next stage begins."""

    __slots__ = ()


class Stage(str):
    """The name of a stage, with the plural of what is counted in it, or ""."""

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
