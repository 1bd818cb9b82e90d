"""What a run would take, before it runs; ``daskfc plan``.

In: a pipeline, stores and a cluster's limits. Out: messages, memory and time of each method. It
starts no worker.
"""
