"""What a real API server says of the manifests, in a dry run: nothing is made or changed.

On demand: DASKFC_KUBECONFIG is the kubeconfig of a cluster that may be asked.
"""

import copy
import functools
import json
import os
import re
import subprocess

import pytest
import yaml

from tests.deployments.manifests import MANIFESTS, documents, pods
from tests.deployments.programs import which

CONFIG = os.environ.get("DASKFC_KUBECONFIG", "")
KUBECTL = which("kubectl")

pytestmark = [
    pytest.mark.deploy,
    pytest.mark.skipif(KUBECTL is None, reason="kubectl is not here: make test-deploy"),
    pytest.mark.skipif(
        not CONFIG, reason="on demand: DASKFC_KUBECONFIG names no cluster whose API server to ask"
    ),
]

ALL = [
    pytest.param(document, id=f"{name}-{document['kind']}-{document['metadata']['name']}")
    for name in MANIFESTS
    for document in documents(name)
]
PODS = [
    pytest.param(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "asked"}, "spec": pod.spec},
        id=f"{name}-{pod.name}",
    )
    for name in MANIFESTS
    for pod in pods(name)
]
DEPLOYMENTS = [param for param in ALL if param.values[0]["kind"] == "Deployment"]


def kubectl(*words, given=""):
    return subprocess.run(
        [KUBECTL, f"--kubeconfig={CONFIG}", *words],
        input=given, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


@functools.cache
def kinds(version):
    """Return which kinds of an API the server has; none where it has no such API."""
    done = kubectl("get", "--raw", f"/apis/{version}" if "/" in version else f"/api/{version}")
    if done.returncode and "NotFound" in done.stderr:
        return frozenset()
    assert done.returncode == 0, done.stderr
    return frozenset(kind["kind"] for kind in json.loads(done.stdout)["resources"])


def asked(document):
    """Return the server's answer to a document that is applied, and to be forgotten at once."""
    version, kind = document["apiVersion"], document["kind"]
    if kind not in kinds(version):
        pytest.skip(f"this API server has no {kind} of {version}")
    words = ("apply", "--dry-run=server", "--validate=strict", "--filename=-")
    return kubectl(*words, given=yaml.safe_dump(document))


@pytest.mark.parametrize("document", [*ALL, *PODS])
def test_the_server_takes_it(document):
    done = asked(document)
    assert done.returncode == 0, done.stderr
    assert "(server dry run)" in done.stdout


@pytest.mark.parametrize("document", DEPLOYMENTS)
def test_the_server_refuses_a_field_that_there_is_not(document):
    document = copy.deepcopy(document)
    document["spec"]["replica"] = document["spec"].pop("replicas")
    done = asked(document)
    assert done.returncode != 0
    assert "replica" in done.stderr


@pytest.mark.parametrize("document", DEPLOYMENTS)
def test_the_server_refuses_a_value_that_there_is_not(document):
    document = copy.deepcopy(document)
    document["spec"]["strategy"] = {"type": "Never"}
    done = asked(document)
    assert done.returncode != 0
    assert re.search(r"spec\.strategy\S*: Unsupported value", done.stderr)
