"""What authors of methods build on: the estimator, its parameters, samples and models.

In: a federation. Out: an estimator with scikit-learn's contract. Protocols and baselines import
this; it imports the driver.
"""
