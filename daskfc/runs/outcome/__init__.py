"""What became of a run: its folder, fits, labels, scores, bytes, and what others are told.

In: results of fits. Out: files of the run's folder and one summary. Reports and the rooms that run
something import it.
"""
