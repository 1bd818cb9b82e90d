"""Runs: a pipeline on a storage and a cluster, in a folder of its own that can be resumed."""

from daskfc.runs.execution.models import load, predict_run
from daskfc.runs.execution.run import Run, prepare, resume, run
from daskfc.runs.execution.scheduled import remove_old_runs, start_or_resume
from daskfc.runs.execution.simulation import Simulation, simulate
from daskfc.runs.outcome.failures import RunFailed
from daskfc.runs.outcome.labels import site_labels
from daskfc.runs.outcome.status import list_runs, status_of
from daskfc.runs.pipeline.config import Pipeline, load_pipeline
from daskfc.runs.pipeline.methods import check_pipeline, estimator_of, known_methods, make_estimator
from daskfc.runs.pipeline.parties import Progress
from daskfc.runs.planning.plan import Plan, plan
from daskfc.runs.planning.plan_table import print_plan
from daskfc.runs.report.audit import Audit, AuditedParty, audit
from daskfc.runs.report.table import print_summary

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
