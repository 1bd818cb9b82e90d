"""Write the approved protocols anew from what all tests asked their parties for.

    DASKFC_RECORD_STEPS=/tmp/steps.jsonl make tests
    python -m tests.approved.write /tmp/steps.jsonl

A use that is in a protocol stays there; `--anew` begins with none. Read the difference before you
commit it: each line says what a submitter may have a site's party do.
"""

import argparse
import json
from pathlib import Path

import yaml

from daskfc.runs import known_methods
from daskfc.site import approved
from daskfc.site.approved import PLACE, ROUTE, WHERE, Protocol, setting
from daskfc.site.request import TASKS

FOLDER = Path(approved.__file__).with_name("protocols")
_OTHER_SUMS = (
    "daskfc.secure.sums.plain.",
    "daskfc.secure.sums.recovering.recovered_total",
    "daskfc.secure.sums.shared.",
    "daskfc.secure.sums.vault.",
)
MATTERS = {
    "OmniFC": {
        "reveal": (
            "daskfc.protocols.omnifc.on_shares.",
            "daskfc.secure.three_parties.",
            "daskfc.secure.distances.parties.party.encode_rows",
            "daskfc.secure.distances.parties.by_columns.columns_apart",
            "daskfc.secure.distances.parties.by_columns.encode_columns",
            "daskfc.secure.distances.parties.by_columns.squared_lengths",
            "daskfc.secure.distances.parties.party.nearest_apart",
            "daskfc.secure.distances.parties.party.answer_",
            "daskfc.secure.distances.parties.server.decode_",
            "daskfc.secure.distances.graphs.keep_pairs",
            "daskfc.secure.distances.graphs.pairs_since",
            "daskfc.secure.distances.routes.divided.",
            "daskfc.secure.distances.routes.last_fit.",
            "daskfc.secure.distances.routes.rows.encode_quantised",
        ),
        "start": (
            "daskfc.secure.distances.graphs.keep_pairs",
            "daskfc.secure.distances.graphs.pairs_since",
            "daskfc.secure.distances.routes.last_fit.",
            "daskfc.secure.distances.routes.rows.encode_quantised",
        ),
        "split": (
            "daskfc.secure.distances.parties.by_columns.columns_apart",
            "daskfc.secure.distances.parties.by_columns.describe_columns",
            "daskfc.secure.distances.parties.by_columns.encode_columns",
            "daskfc.secure.distances.parties.by_columns.refuse_far_columns",
            "daskfc.secure.distances.parties.by_columns.squared_lengths",
            "daskfc.secure.distances.parties.party.describe",
            "daskfc.secure.distances.parties.party.nearest_apart",
            "daskfc.secure.distances.parties.party.refuse_far_samples",
            "daskfc.secure.distances.parties.party.encode_rows",
            "daskfc.secure.sums.centre.sum_of_rows",
        ),
        "gaps": ("daskfc.secure.distances.parties.gaps.",),
        "balance": (
            "daskfc.secure.distances.parties.by_columns.own_modularity",
            "daskfc.secure.distances.parties.by_columns.told_modularity",
        ),
    },
    "FFCM": {
        "start": tuple(
            f"daskfc.baselines.centers.ffcm.{step}_centers" for step in ("find", "keep", "last")
        )
    },
    "ESFMC": {
        "noise": (
            "daskfc.protocols.esfmc.party.new_assignments",
            "daskfc.protocols.esfmc.party.tell_assignments",
            "daskfc.protocols.esfmc.party.tell_losses",
            "daskfc.protocols.esfmc.party.vote",
        ),
    },
    "FedSC": {
        "averaging": _OTHER_SUMS,
        "diagnostics": ("daskfc.protocols.fedsc.diagnosis.",),
        "noise": ("daskfc.federation.methods.samples.store_", "daskfc.protocols.fedsc.diagnosis."),
        "similarity": (
            "daskfc.protocols.fedsc.party.tell_rows",
            "daskfc.protocols.fedsc.similarity.coded_rows.",
            "daskfc.secure.distances.routes.rows.",
        ),
        "start": ("daskfc.protocols.fedsc.party.moments", "daskfc.protocols.fedsc.start."),
    },
    "FederatedGaussianMixture": {"averaging": _OTHER_SUMS},
    "FederatedKMeans": {
        "averaging": _OTHER_SUMS,
        "client_priors": ("daskfc.protocols.federated_kmeans.priors.",),
        "noise": (
            "daskfc.protocols.federated_kmeans.priors.",
            "daskfc.secure.kmeans.on_sums.",
            "daskfc.secure.kmeans.private.",
        ),
    },
    "FederatedKernelKMeans": {
        "averaging": _OTHER_SUMS,
        "clustering": (
            "daskfc.secure.kmeans.coreset.",
            "daskfc.secure.kmeans.on_coreset.",
            "daskfc.secure.kmeans.on_sums.",
        ),
        "communication_efficient": ("daskfc.protocols.fk_kmeans.uncompressed.",),
        "noise": (
            "daskfc.federation.methods.samples.store_content",
            "daskfc.protocols.fk_kmeans.party.noisy_gram",
            "daskfc.protocols.fk_kmeans.party.packed_gram",
            "daskfc.protocols.fk_kmeans.party.product",
            "daskfc.protocols.fk_kmeans.uncompressed.",
            "daskfc.secure.kmeans.coreset.",
            "daskfc.secure.kmeans.on_coreset.",
            "daskfc.secure.kmeans.on_sums.",
            "daskfc.secure.sums.centre.",
            "daskfc.secure.sums.interpoint.",
        ),
    },
    "kCAGC": {"averaging": _OTHER_SUMS},
    "preparation": {
        "noised": (
            "daskfc.federation.methods.samples.sample_digests",
            *(
                f"daskfc.secure.prepare.{step}"
                for step in (
                    "holders.may_be_told", "holders.own_words", "holders.words_held",
                    "quantiles.hist", "quantiles.sorted", "steps.column_magnitudes",
                    "steps.counts_of_words", "steps.covariances", "steps.squared_lengths",
                    "steps.squares", "steps.sums", "steps.zero_rows", "words.bucket_counts",
                    "words.hash_key", "words.spelt_buckets",
                )
            ),
        ),
    },
}  # fmt: skip
"""Parameters that say how samples are hidden, by method, and the steps whose approval depends on
their settings. Of other steps it must not: tests do not try all settings with all others."""

ABOUT = """\
# The steps of {method}: where each runs, which way its messages go, and what its arguments are made
# of: steps of the same party, classes of messages that arrived, values of the caller. A party of a
# site performs nothing else in a run of {method}. Written by tests/approved/write.py.
"""


def gathered(path, known):
    """Return settings by method, step, key, value there and parameter."""
    found = dict(known)
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        method, parameters, step, parts = json.loads(line)
        for key, value in parts:
            entry = found.setdefault(method, {}).setdefault(step, {}).setdefault(key, {})
            for name in [
                name for name, of in MATTERS.get(method, {}).items() if step.startswith(of)
            ]:
                settings = entry.setdefault(value, {}).setdefault(name, [])
                if (one := setting(parameters.get(name))) not in settings:
                    settings.append(one)
            entry.setdefault(value, {})
    return found


def known_so_far():
    return {path.stem: Protocol.of(path.stem).steps for path in FOLDER.glob("*.yaml")}


def all_settings(steps):
    """Return every setting that is known of each parameter: one more than those that need it."""
    every = {name: {None} for of in MATTERS.values() for name in of}
    every["noise"] = {None, "given"}  # whose steps may be those without alone
    for entry in steps.values():
        for values in entry.values():
            for needs in values.values():
                for name, settings in needs.items():
                    every.setdefault(name, set()).update(settings)
    return every


def needs_of(entry, every):
    """Return what each value of a step's entry needs, and what all of them need."""
    told = {
        (key, value): {
            name: sorted(settings, key=str)
            for name, settings in sorted(needs.items())
            if set(settings) != every[name]
        }
        for key, values in entry.items()
        for value, needs in values.items()
    }
    first = next(iter(told.values()))
    common = {
        name: settings
        for name, settings in first.items()
        if all(needs.get(name) == settings for needs in told.values())
    }
    own = {
        place: {name: settings for name, settings in needs.items() if name not in common}
        for place, needs in told.items()
    }
    return own, common


def content_of(entry, every):
    own, common = needs_of(entry, every)
    content = {WHERE: common} if common else {}
    for key in sorted(entry, key=lambda key: (key != PLACE, key != ROUTE, key)):
        listed = [(value, own[key, value]) for value in sorted(entry[key])]
        content[key] = [{value: needs} if needs else value for value, needs in listed]
    return content


def write(method, steps):
    every = all_settings(steps)
    content = {step: content_of(entry, every) for step, entry in sorted(steps.items())}
    text = yaml.safe_dump(
        {"steps": content}, sort_keys=False, allow_unicode=True, width=96, default_flow_style=None
    )
    (FOLDER / f"{method}.yaml").write_text(ABOUT.format(method=method) + text, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recorded")
    parser.add_argument("--anew", action="store_true")
    given = parser.parse_args()
    known = {} if given.anew else known_so_far()
    for method, steps in sorted(gathered(given.recorded, known).items()):
        if method in known_methods() or method in TASKS:  # and none that a test made up
            write(method, steps)
