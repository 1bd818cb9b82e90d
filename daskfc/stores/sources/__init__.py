"""Files that data come in: `source` says what a format must have; tables have named columns.

In: a source of a storage file. Out: `Samples`, with ids and names of columns. A new format is a
file in `formats` or `tables` and a line in `readers`, or another package's entry point of
`daskfc.sources`.
"""
