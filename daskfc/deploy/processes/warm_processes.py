"""Imported by the process that worker processes are forked from: they share compiled code."""

from daskfc.coding import warm_up

__all__: list[str] = []

warm_up()
