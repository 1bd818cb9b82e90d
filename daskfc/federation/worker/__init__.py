"""The process of a party: a Dask worker that runs steps only, behind a guard.

In: connections, and tasks of Dask. Out: messages that `party` lets leave, to their receivers. All
else of Dask's protocol is refused here. Nothing above but the scheduler and the driver imports it.
"""
