"""Formats of arrays and data sets, each with a subclass of `Source` that `readers` lists."""
