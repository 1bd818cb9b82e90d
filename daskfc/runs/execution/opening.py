"""Agree with the parties on names of samples and prepared features, before the first fit."""

import logging
import warnings

import pandas as pd

from daskfc.federation import Federation
from daskfc.federation.driver.agreement import agree_on_pseudonyms
from daskfc.federation.driver.stage import Notice
from daskfc.federation.identity.pseudonyms import pseudonyms_of
from daskfc.folders import write_private
from daskfc.runs.execution.whole import Whole
from daskfc.runs.outcome.communication import ledger_frame
from daskfc.runs.outcome.folder import RunFolder
from daskfc.runs.pipeline.methods import CheckedPipeline
from daskfc.secure.prepare import PreparationWarning

log = logging.getLogger("daskfc.runs")


def settle(
    folder: RunFolder, federation: Federation, checked: CheckedPipeline, tell: Whole
) -> dict[str, pd.DataFrame]:
    """Settle names and preparation, keep both in ``run.json``, and return all messages by step."""
    told = {"opening": _name_samples(folder, federation, checked)}
    if checked.prepare.steps:
        tell("preparing the features", 0, 0)
        with tell.part("preparation"), warnings.catch_warnings():
            warnings.simplefilter("ignore", PreparationWarning)  # for the run's summary
            prepared = checked.prepare.fit(federation)
        for sentence in prepared.warnings:
            tell(Notice(f"Note: {sentence}"), 0, 0)
        said = dict.fromkeys([*folder.record.get("warnings", ()), *prepared.warnings])
        folder.update(prepared=prepared.steps, warnings=list(said))
        told["preparation"] = ledger_frame(prepared.ledger)
        federation.preparation = prepared
    return told


def _name_samples(
    folder: RunFolder, federation: Federation, checked: CheckedPipeline
) -> pd.DataFrame:
    """Settle the names of samples, once over all attempts; return all messages so far."""
    names = pseudonyms_of(folder.record.get("pseudonyms"))
    federation.pseudonyms = names
    agreed = folder.path / "fits" / "agreement.parquet"
    if names is None or all(one.split == "samples" for one in checked.estimators.values()):
        return ledger_frame(federation.opening_ledger)
    if not names.keys:
        agree_on_pseudonyms(federation)
        assert federation.pseudonyms is not None
        agreed.parent.mkdir(exist_ok=True)
        opening = ledger_frame(federation.opening_ledger)
        write_private(agreed, opening.to_parquet(index=False), overwrite=True)
        folder.update(pseudonyms=federation.pseudonyms.as_dict())
        return opening
    again = ledger_frame(federation.opening_ledger)
    try:
        kept = pd.read_parquet(agreed)
        # an empty table may change the others' dtypes in a later pandas
        return pd.concat([kept, again], ignore_index=True) if len(again) else kept
    except (OSError, ValueError):  # pyarrow's own errors are either
        log.warning("the messages by which clients agreed on pseudonyms are lost")
        return again
