"""What every test that fits a method asks its parties for, held against the approved protocols."""

import functools
import json
import os
from unittest import mock
from weakref import WeakKeyDictionary

from daskfc.federation.driver.verbs import Verbs
from daskfc.federation.messages.declaration import SERVER, role_of, route_of
from daskfc.federation.messages.wire_format import Reader
from daskfc.federation.planning.rehearsal import Rehearsal
from daskfc.federation.steps import handles
from daskfc.federation.steps.calls import declared_message, read_step
from daskfc.federation.steps.handles import Local, for_each, pack
from daskfc.federation.steps.rules import Announced, broken_rule
from daskfc.federation.steps.uses import identity, uses_of
from daskfc.site.approved import TO_EACH, Protocol

INTO = "DASKFC_RECORD_STEPS"
"""Environment variable: a file that uses are written to, in place of being judged."""


class Recorder:
    """Stands before the driver's verbs; notes each use of a step once."""

    def __init__(self):
        self.seen = set()
        self.refusals = {}  # sentences, in order
        self._classes = WeakKeyDictionary()
        self._task, self._sent = Verbs._task, Verbs._sent
        self._into = os.environ.get(INTO)
        self.listens = True  # not while a test does what no method does

    def start(self):
        recorder = self

        @functools.wraps(self._task)
        def task(verbs, party, bound, verb="keep", receivers=(), axes=None):
            made = recorder._task(verbs, party, bound, verb, receivers, axes)
            recorder.note(verbs, party, bound, receivers)
            return made

        @functools.wraps(self._sent)
        def sent(verbs, party, step, futures):
            handle = recorder._sent(verbs, party, step, futures)
            recorder._classes[handle] = identity(declared_message(step)[0])
            return handle

        Verbs._task, Verbs._sent = task, sent

    def stop(self):
        Verbs._task, Verbs._sent = self._task, self._sent

    def note(self, verbs, party, bound, receivers):
        request = verbs._running().request
        method = request.get("method")
        if (
            not self.listens
            or isinstance(verbs, Rehearsal)
            or method is None
            or request.get("package") != "daskfc"
        ):
            return
        found = []
        with mock.patch.object(handles, "_future_for", lambda handle, *_: handle):
            packed = pack(bound.arguments, party, bound.name, found, split=party != SERVER)
        uses = uses_of(
            bound.step,
            packed,
            [self._maker(handle) for handle in found],
            at=role_of(party),
            each=for_each(bound.arguments) if party != SERVER else (),
            made_for_each=[self._maker(handle, to_each=True) for handle in found],
            sends=[route_of(party, receiver) for receiver in receivers],
            read=lambda inner: read_step(inner.name, inner.code, Reader(trusted=True)),
        )
        for use in uses:
            names = verbs._running().pseudonyms
            announced = Announced(request.get("parameters", {}), verbs.clients, names)
            self._judge(method, announced, use)

    def _maker(self, handle, to_each=False):
        if isinstance(handle, Local):
            return identity(handle.made_by)
        of_server = role_of(handle.party) != "client"
        return self._classes[handle] + (TO_EACH if to_each and of_server else "")

    def _judge(self, method, announced, use):
        parameters = announced.parameters
        if any(source.rpartition(": ")[2].startswith("tests.") for _, source in use.parts()):
            return  # a test's own step, or one that takes what such a step made
        if use.step.startswith("tests."):
            return
        if use.step.startswith("daskfc."):
            broken = broken_rule(use.function, use.given, announced, use.at)
            if broken is not None:
                self.refusals[f"{method} asks for {use.step}, whose {broken}"] = None
        told = json.dumps([method, parameters, use.step, sorted(use.parts())], sort_keys=True)
        if told in self.seen:
            return
        self.seen.add(told)
        if self._into is not None:
            with open(self._into, "a", encoding="utf-8") as file:
                file.write(told + "\n")
        elif (refusal := Protocol.of(method).refusal(use, parameters)) is not None:
            self.refusals[refusal.sentence] = None
