"""Runs: a pipeline on a storage and a cluster, in a folder of its own that can be resumed."""

from daskfc.runs.audit import Audit, AuditedParty, audit
from daskfc.runs.config import Pipeline, load_pipeline
from daskfc.runs.execution import Progress, RunFailed
from daskfc.runs.labels import site_labels
from daskfc.runs.methods import check_pipeline, estimator_of, known_methods, make_estimator
from daskfc.runs.models import load, predict_run
from daskfc.runs.outcome import NotTold, check_target, outcome_of, tell_outcome
from daskfc.runs.plan import Plan, plan
from daskfc.runs.plan_table import print_plan
from daskfc.runs.run import Run, prepare, resume, run
from daskfc.runs.scheduled import (
    changed_settings,
    check_keep,
    find_or_prepare,
    finish,
    name_of_key,
    remove_old_runs,
    start_or_resume,
)
from daskfc.runs.status import list_runs, status_of
from daskfc.runs.table import print_summary, seconds_in_words

__all__ = [
    "Audit",
    "AuditedParty",
    "NotTold",
    "Pipeline",
    "Plan",
    "Progress",
    "Run",
    "RunFailed",
    "audit",
    "changed_settings",
    "check_keep",
    "check_pipeline",
    "check_target",
    "estimator_of",
    "find_or_prepare",
    "finish",
    "known_methods",
    "list_runs",
    "load",
    "load_pipeline",
    "make_estimator",
    "name_of_key",
    "outcome_of",
    "plan",
    "predict_run",
    "prepare",
    "print_plan",
    "print_summary",
    "remove_old_runs",
    "resume",
    "run",
    "seconds_in_words",
    "site_labels",
    "start_or_resume",
    "status_of",
    "tell_outcome",
]
