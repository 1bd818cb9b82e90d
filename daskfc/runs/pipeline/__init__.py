"""A pipeline as it is written: its file, its methods and parameters, who takes part.

In: YAML files or mappings. Out: one checked `Pipeline`, and estimators of its methods. Nothing
runs; all rooms of `daskfc.runs` may import it.
"""
