"""Tiles of scores that are small enough for tests to have many."""

from daskfc.clustering.views import screening


def in_tiles(monkeypatch, rows):
    """Have tiles of so many rows, and of more columns, unless more neighbours need larger ones."""
    monkeypatch.setattr(screening, "_HEIGHT", rows)
    monkeypatch.setattr(screening, "_WIDTH", rows + 37)
    monkeypatch.setattr(screening, "_EACH", 0.5)
