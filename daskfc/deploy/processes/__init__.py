"""Processes of parties and schedulers: started here, at sites, on other hosts, beside workers.

In: a cluster's configuration. Out: processes that run `daskfc.federation`'s workers, and their end.
"""
