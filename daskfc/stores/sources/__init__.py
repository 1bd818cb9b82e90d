"""Files that data come in: CSV, Parquet, arrays, MATLAB, graphs; a module for each.

In: a file's name. Out: rows in blocks, with ids and names of columns. A new format is a module here
and a line in `readers`.
"""
