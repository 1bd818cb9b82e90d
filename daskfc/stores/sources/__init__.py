"""Files that data come in: `source` says what a format must have, `formats` has a file for each.

In: a source of a storage file. Out: `Samples`, with ids and names of columns. A new format is a
file in `formats` and a line in `readers`, or another package's entry point of `daskfc.sources`.
"""
