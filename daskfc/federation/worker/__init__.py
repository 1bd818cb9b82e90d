"""The process of a party: a Dask worker that runs steps only, behind a guard.

In: connections, and tasks of Dask. Out: what `party` lets leave, to whom it is for. Whatever else
Dask's protocol offers is refused here. Nothing above but the scheduler and the driver imports it.
"""
