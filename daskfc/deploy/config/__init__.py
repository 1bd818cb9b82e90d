"""A cluster's file as it is written, Dask's settings, and what daskfc uses of Dask's insides.

In: YAML, and names of Dask. Out: one checked configuration. It starts nothing and opens no
connection; all rooms of `daskfc.deploy` may import it.
"""
