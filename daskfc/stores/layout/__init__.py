"""A store as it lies on disk: its Zarr arrays, chunks, digests, ids, and how it is written.

In: blocks of rows. Out: a store's folder or bucket, and its parts read back. It knows no source
file and no client; all other rooms of `daskfc.stores` may import it.
"""
