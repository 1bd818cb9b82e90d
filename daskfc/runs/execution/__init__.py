"""A run carried out: prepared, started, resumed, at a schedule, or as a simulation.

In: a pipeline, a storage and a cluster. Out: a run's folder. Only the command line and the front
door import it.
"""
