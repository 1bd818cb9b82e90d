"""A run for people: tables, figures, a page, comparisons, and the audit of ledgers.

In: folders of runs. Out: text, HTML and pictures. It changes no run and starts no worker.
"""
