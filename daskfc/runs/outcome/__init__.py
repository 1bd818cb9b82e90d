"""What became of a run: its folder, fits, labels, scores, bytes, and alerts of its end.

In: results of fits. Out: files of the run's folder and one summary. Reports and the rooms that run
something import it.
"""
