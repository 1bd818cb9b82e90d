"""Formats whose files are one table with named columns: csv, columnar, Excel, SQL and JSON.

`table` has what they share: names told anew, codes for gaps, long tables, labels, ids and words.
"""
