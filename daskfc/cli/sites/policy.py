"""``daskfc policy init|show|check|audit``."""

import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

import click

from daskfc.cli.terminal.exits import BAD_INPUT, exits
from daskfc.cli.terminal.output import print_table
from daskfc.errors import InvalidInput
from daskfc.federation.worker.ingress import allowed_names
from daskfc.folders import write_private
from daskfc.runs import check_pipeline, known_methods, load_pipeline
from daskfc.runs.pipeline.requests import requests_of
from daskfc.site import Policy, Refusal, SiteState
from daskfc.site.approved import Protocol
from daskfc.site.words import in_words, template
from daskfc.stores import ClientStore


@click.group()
def policy() -> None:
    """Say what a site takes part in: a file at the site, which no submitter can loosen.

    'daskfc policy init' writes one, 'daskfc policy show' explains it, 'daskfc policy check' says
    what it would answer to a pipeline, and 'daskfc policy audit' lists past answers.
    """


@policy.command("init")
@click.argument("file", default="site.yaml", type=click.Path(dir_okay=False))
def make(file: str) -> None:
    """Write a commented policy into FILE, site.yaml by default.

    It has the rules that hold without a file, and shows the other keys. Nothing is overwritten.

    \b
    Example:
      daskfc policy init site.yaml
    """  # noqa: D301 - click reads \b
    with exits():
        write_private(file, template().encode())
    click.echo(f"Wrote {file}. Next:")
    click.echo(f"  daskfc policy show {shlex.quote(file)}")


@policy.command()
@click.argument("file", metavar="[POLICY]", required=False, type=click.Path())
@click.option("--loopback", is_flag=True, help="Without POLICY: of parties on this machine alone.")
@click.option("--ingress", is_flag=True, help="Tell what a party makes of what comes in.")
@click.option("--steps", metavar="METHOD", help="Tell what a party does in a run of METHOD.")
def show(file: str | None, loopback: bool, ingress: bool, steps: str | None) -> None:
    """Explain POLICY in plain words, or the rules that hold where there is none.

    --ingress lists the objects that Dask may make of data at a party's ports, and the packages
    whose steps may be named. --steps lists the steps of a method: where each runs, the route of its
    messages, and what its arguments are made of; a party of a site performs no others.

    \b
    Example:
      daskfc policy show site.yaml
      daskfc policy show site.yaml --ingress
      daskfc policy show --steps FedSC
    """  # noqa: D301 - click reads \b
    with exits():
        if file is not None and loopback:
            raise InvalidInput("--loopback is of the policy without a file. Leave one of both out.")
        if ingress and steps is not None:
            raise InvalidInput("--ingress and --steps are two lists. Ask for one after the other.")
        found = Policy.default(loopback) if file is None else Policy.load(file)
        if ingress:
            _show_ingress(found)
            return
        if steps is not None:
            _show_steps(steps)
            return
        told = in_words(found).items()
        print_table(("", ""), told, box=None, show_header=False, pad_edge=False)
        _tell_unknown_methods(found)


def _show_ingress(found: Policy) -> None:
    click.echo("Dask makes these of what comes in at a party, and nothing else:")
    for name in allowed_names():
        click.echo(f"  {name}")
    packages = ", ".join(sorted(found.modules()))
    click.echo(f"Steps, arguments and messages are data; they may name classes of: {packages}")


def _show_steps(method: str) -> None:
    protocol = Protocol.of(method)
    if not protocol.steps:
        raise InvalidInput(
            f"no method of daskfc is called {method!r}. 'daskfc methods' lists them."
        )
    for step, entry in protocol.steps.items():
        click.echo(_short(step))
        for key, values in entry.items():
            click.echo(f"  {key}: {', '.join(map(_told, values.items()))}")


def _told(approved: tuple[str, Mapping[str, Sequence[object]]]) -> str:
    value, needs = approved
    only = [f"{name} is {' or '.join(map(str, those)).lower()}" for name, those in needs.items()]
    return _short(value) + (f" (where {' and '.join(only)})" if only else "")


def _short(name: str) -> str:
    return name.replace("daskfc.", "")


def _tell_unknown_methods(found: Policy) -> None:
    known = known_methods()
    unknown = [] if found.methods is None else [name for name in found.methods if name not in known]
    if unknown:
        click.echo(f"Not installed here: {', '.join(unknown)}.", err=True)


def _time(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            f"--at must be a time such as 2026-01-31T22:00; got {text!r}. Correct it."
        ) from None
    return moment if moment.tzinfo is not None else moment.astimezone()


@policy.command()
@click.argument("file", metavar="POLICY", type=click.Path())
@click.argument("pipeline", type=click.Path())
@click.option("--store", help="URL or path of this site's store: its columns and samples count.")
@click.option("--clients", type=click.IntRange(min=1), help="How many clients take part.")
@click.option("--submitter", help="Who would begin the run, as their certificate says.")
@click.option("--at", "moment", metavar="TIME", help="When, e.g. 2026-01-31T22:00.")
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE",
    help="Change the pipeline, as for 'daskfc run'.",
)  # fmt: skip
def check(
    file: str,
    pipeline: str,
    store: str | None,
    clients: int | None,
    submitter: str | None,
    moment: str | None,
    overrides: tuple[str, ...],
) -> None:
    """Report what a site with POLICY would answer to PIPELINE, without starting anything.

    One line for each method: yes, or the rules that refuse it, and then exit code 2. Rules that
    depend on options not given (store, submitter, time) are named as not judged.

    \b
    Example:
      daskfc policy check site.yaml pipelines/omnifc.yaml --store /srv/a.zarr --clients 3
    """  # noqa: D301 - click reads \b
    with exits():
        found = Policy.load(file)
        definition = load_pipeline(pipeline, overrides=overrides)
        check_pipeline(definition, n_clients=clients)
        own = None if store is None else ClientStore.open(store)
        answers: dict[str, dict[Refusal, None]] = {}
        for request in requests_of(definition, submitter=submitter, n_clients=clients):
            said = found.refusals(
                request,
                now=_time(moment),
                runs_before=None,
                n_samples=None if own is None else own.n_samples,
                columns=None if own is None else own.feature_names,
            )
            judged = [one for one in said if submitter is not None or one.rule != "submitters"]
            answers.setdefault(request.method, {}).update(dict.fromkeys(judged))
    _tell(answers)
    unknown = _not_judged(found, store=store, clients=clients, submitter=submitter, at=moment)
    if unknown:
        click.echo(f"Not judged: {', '.join(unknown)}.")
    if any(answers.values()):
        sys.exit(BAD_INPUT)


def _tell(answers: dict[str, dict[Refusal, None]]) -> None:
    rows: list[tuple[str, ...]] = []
    for method, refusals in answers.items():
        if not refusals:
            rows.append((method, "yes"))
        for i, refusal in enumerate(refusals):
            head = ("", "") if i else (method, "no")
            rows.append((*head, refusal.rule, refusal.sentence))
    print_table(("method", "answer", "rule", "why"), rows)


def _not_judged(found: Policy, **given: object) -> Iterable[str]:
    """Return the rules of a policy that cannot be judged, each with the option that it needs."""
    depends = {
        "columns (--store)": found.columns != "any" and given["store"] is None,
        "samples (--store)": found.samples.at_least > 1 and given["store"] is None,
        "maskers (--clients)": found.maskers.at_least > 1 and given["clients"] is None,
        "submitters (--submitter)": found.submitters != "any" and given["submitter"] is None,
        "hours (--at)": found.hours is not None and given["at"] is None,
        "runs": found.runs is not None,
        "upload": found.upload is not None,
        "budget": found.budget is not None,
    }
    return [name for name, is_open in depends.items() if is_open]


@policy.command()
@click.argument("state", type=click.Path())
def audit(state: str) -> None:
    """List the starts, refusals and grants at this site, oldest first.

    STATE is the party's SQLite file.

    \b
    Example:
      daskfc policy audit state.sqlite
    """  # noqa: D301 - click reads \b
    with exits():
        rows = SiteState(state, new=False).audit()
    told = []
    for row in rows:
        when = f"{datetime.fromtimestamp(row.time, UTC):%Y-%m-%d %H:%M:%S}"
        told.append((when, row.what, row.run_id, row.submitter or "", row.rule, row.text))
    print_table(("UTC", "what", "run", "by", "rule", "why"), told)
