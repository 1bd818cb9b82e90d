"""Runs: a pipeline on a storage and a cluster, in a folder of its own that can be resumed."""

from daskfc.runs.audit import Audit, AuditedParty, audit
from daskfc.runs.config import Pipeline, load_pipeline
from daskfc.runs.execution import Progress
from daskfc.runs.failures import RunFailed
from daskfc.runs.labels import site_labels
from daskfc.runs.methods import check_pipeline, estimator_of, known_methods, make_estimator
from daskfc.runs.models import load, predict_run
from daskfc.runs.plan import Plan, plan
from daskfc.runs.plan_table import print_plan
from daskfc.runs.run import Run, prepare, resume, run
from daskfc.runs.scheduled import remove_old_runs, start_or_resume
from daskfc.runs.simulation import Simulation, simulate
from daskfc.runs.status import list_runs, status_of
from daskfc.runs.table import print_summary

__all__ = [
    "Audit",
    "AuditedParty",
    "Pipeline",
    "Plan",
    "Progress",
    "Run",
    "RunFailed",
    "Simulation",
    "audit",
    "check_pipeline",
    "estimator_of",
    "known_methods",
    "list_runs",
    "load",
    "load_pipeline",
    "make_estimator",
    "plan",
    "predict_run",
    "prepare",
    "print_plan",
    "print_summary",
    "remove_old_runs",
    "resume",
    "run",
    "simulate",
    "site_labels",
    "start_or_resume",
    "status_of",
]
