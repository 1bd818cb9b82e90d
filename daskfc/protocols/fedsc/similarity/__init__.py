"""Stage II of FedSC: similarities of all samples at the server, their graph and its clusters.

In: clients' rows of C, or shares of them, and the last dictionary. Out: labels. The estimator
imports it.
"""
