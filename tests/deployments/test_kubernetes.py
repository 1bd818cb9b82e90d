"""The manifests for Kubernetes agree with themselves and with the command line.

Fields and types are judged by the schemas of Kubernetes and of Dask's operator where they are
installed, which `make test-deploy` does.
"""

import functools
import importlib.metadata
import re
import shlex
import subprocess

import pytest
import yaml

from daskfc.deploy import load_cluster
from daskfc.runs import check_pipeline, load_pipeline
from daskfc.site import Policy
from tests.deployments.manifests import (
    FOLDER,
    MANIFESTS,
    PLAIN,
    documents,
    of_kind,
    pods,
    ports_of,
    services,
)
from tests.deployments.programs import which

PODS = [
    pytest.param(name, pod, id=f"{name}-{pod.name}") for name in MANIFESTS for pod in pods(name)
]
VERSION = "1.34"
SCHEDULER = 8786
# What the schemas leave open: values of a few fields.
ENUMS = {
    "concurrencyPolicy": {"Allow", "Forbid", "Replace"},
    "restartPolicy": {"Always", "OnFailure", "Never"},
    "imagePullPolicy": {"Always", "IfNotPresent", "Never"},
    "externalTrafficPolicy": {"Cluster", "Local"},
    "fsGroupChangePolicy": {"Always", "OnRootMismatch"},
    "action": {"FailJob", "FailIndex", "Ignore", "Count"},
    "operator": {"In"},
    "medium": {"", "Memory"},
    "protocol": {"TCP", "UDP", "SCTP"},
}
TYPES = {
    "strategy": {"Recreate", "RollingUpdate"},
    "seccompProfile": {"RuntimeDefault", "Localhost", "Unconfined"},
}


def walk(tree, above=""):
    """Yield each key of a tree with its value and the key above."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield above, key, value
            yield from walk(value, key)
    elif isinstance(tree, list):
        for value in tree:
            yield from walk(value, above)


@pytest.mark.parametrize("name", MANIFESTS)
def test_words_of_which_there_are_few_are_some_of_them(name):
    found = set()
    for document in documents(name):
        for above, key, value in walk(document):
            if key in ENUMS:
                assert value in ENUMS[key], (name, key, value)
                found.add(key)
            elif key == "type" and above in TYPES:
                assert value in TYPES[above], (name, above, value)
            elif key == "policyTypes":
                assert set(value) == {"Ingress", "Egress"}
            elif key == "accessModes":
                assert set(value) <= {"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"}
    assert {"imagePullPolicy", "protocol", "medium", "fsGroupChangePolicy"} <= found


def memory(text):
    number, unit = re.fullmatch(r"(\d+)(Mi|Gi|MB|GB)", text).groups()
    return int(number) * {"Mi": 2**20, "Gi": 2**30, "MB": 10**6, "GB": 10**9}[unit]


@pytest.mark.parametrize(("name", "pod"), PODS)
def test_a_pod_has_no_rights(name, pod):
    whole, own = pod.spec["securityContext"], pod.container["securityContext"]
    assert whole["runAsNonRoot"] is True
    assert whole["runAsUser"] >= 10000
    assert whole["seccompProfile"] == {"type": "RuntimeDefault"}
    assert own["allowPrivilegeEscalation"] is False
    assert own["readOnlyRootFilesystem"] is True
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert pod.spec["automountServiceAccountToken"] is False
    # Else a site's memory is opened to its group at each start, and then refused by the party.
    assert whole["fsGroupChangePolicy"] == "OnRootMismatch"


@pytest.mark.parametrize(("name", "pod"), PODS)
def test_memory_suffices_for_all_processes_and_files_in_memory(name, pod):
    limit = memory(pod.container["resources"]["limits"]["memory"])
    (tmp,) = [one["emptyDir"] for one in pod.spec["volumes"] if "emptyDir" in one]
    assert tmp["medium"] == "Memory"
    own = pod.options.get("memory_limit")
    needed = memory(own) + 500_000_000 if own else 0
    assert limit >= needed + memory(tmp["sizeLimit"])


@pytest.mark.parametrize(("name", "pod"), PODS)
def test_what_a_command_names_is_mounted(name, pod):
    options = pod.options
    read = ("store", "policy", "pipeline", "cluster", "tls_ca_file", "tls_cert", "tls_key")
    for key in read:
        if options.get(key):
            mount, volume = pod.mount_of(options[key])
            assert mount["readOnly"] is True
            if "configMap" in volume:
                (held,) = [
                    one
                    for one in of_kind("ConfigMap", name)
                    if one["metadata"]["name"] == volume["configMap"]["name"]
                ]
                assert options[key].rpartition("/")[2] in held["data"]
    for key in ("workspace", "runs_dir"):
        if options.get(key):
            mount, volume = pod.mount_of(options[key])
            assert not mount.get("readOnly")
            assert "persistentVolumeClaim" in volume
            # A folder of its own: the volume's root is open to the group.
            assert options[key].rstrip("/") != mount["mountPath"]


@pytest.mark.parametrize(("name", "pod"), PODS)
def test_ports_are_the_same_in_pod_service_and_policy(name, pod):
    assert set(pod.declared.values()) == pod.listens
    assert 0 not in pod.listens
    reached = {}
    for service in services(name):
        if pod.selected_by(service["selector"]):
            for port in service["ports"]:
                reached[port["port"]] = pod.declared[port["targetPort"]]
    assert all(outside == inside for outside, inside in reached.items())  # others are told these
    if name in PLAIN:
        assert set(reached) == pod.listens
    policies = [one["spec"] for one in of_kind("NetworkPolicy", name)]
    (policy,) = [one for one in policies if pod.selected_by(one["podSelector"])]
    if name in PLAIN:
        assert ports_of(policy["ingress"]) == pod.listens
    else:
        assert ports_of(policy["ingress"]) >= pod.listens


def reaches(policy):
    return ports_of(policy["egress"]) - {53}


def test_everybody_may_call_whom_he_must():
    """The scheduler calls both processes of a party; parties call workers; submitters both."""
    party = {pod.options["port"] for name in PLAIN for pod in pods(name) if pod.listens}
    nanny = {pod.options["nanny_port"] for name in PLAIN for pod in pods(name)
             if "nanny_port" in pod.options}  # fmt: skip
    worker = party - {SCHEDULER}
    assert len(worker) == len(nanny) == 1
    wanted = {
        "daskfc-scheduler": worker | nanny,
        "daskfc-server": {SCHEDULER} | worker | nanny,
        "daskfc-hospital-a": {SCHEDULER} | worker | nanny,
        "daskfc-nightly": {SCHEDULER} | worker,
    }
    found = {
        policy["metadata"]["name"]: reaches(policy["spec"])
        for name in PLAIN
        for policy in of_kind("NetworkPolicy", name)
    }
    assert found == wanted


@pytest.mark.parametrize("name", MANIFESTS)
def test_all_name_one_scheduler_and_its_port(name):
    service = "trial-scheduler" if name == "operator.yaml" else "scheduler.example.org"
    text = (FOLDER / name).read_text("utf-8")
    addresses = set(re.findall(r"^ .*(tls://\S+)", text, re.MULTILINE))
    assert addresses == {f"tls://{service}:{SCHEDULER}"}


@pytest.mark.parametrize("name", ["coordinator.yaml", "site.yaml"])
def test_a_party_is_there_once_and_found_by_its_name(name):
    for deployment in of_kind("Deployment", name):
        assert deployment["spec"]["replicas"] == 1
        assert deployment["spec"]["strategy"] == {"type": "Recreate"}
        selected = deployment["spec"]["selector"]["matchLabels"]
        assert selected == deployment["spec"]["template"]["metadata"]["labels"]
    for pod in pods(name):
        if pod.options["command"] == "party":
            assert pod.options["contact_address"] == f"{pod.options['name']}.example.org"


def test_with_the_operator_each_client_has_a_group_and_the_server_that_of_the_cluster():
    parties = [pod for pod in pods("operator.yaml") if pod.options["command"] == "party"]
    assert [pod.options["name"] for pod in parties] == [
        "server", "hospital-a", "hospital-b", "hospital-c",
    ]  # fmt: skip
    for document in (*of_kind("DaskCluster", "operator.yaml"),
                     *of_kind("DaskWorkerGroup", "operator.yaml")):  # fmt: skip
        assert document["spec"]["worker"]["replicas"] == 1
    assert not of_kind("DaskAutoscaler", "operator.yaml")


def test_the_nightly_run_is_never_two_and_ends_at_bad_input():
    (job,) = of_kind("CronJob", "nightly.yaml")
    spec = job["spec"]
    assert spec["concurrencyPolicy"] == "Forbid"
    assert spec["timeZone"] == "Etc/UTC"
    within = spec["jobTemplate"]["spec"]
    assert within["template"]["spec"]["restartPolicy"] == "Never"
    rules = {rule["action"]: rule for rule in within["podFailurePolicy"]["rules"]}
    (container,) = within["template"]["spec"]["containers"]
    assert rules["FailJob"]["onExitCodes"] == {
        "containerName": container["name"], "operator": "In", "values": [2],
    }  # fmt: skip


def test_files_within_manifests_are_such_as_daskfc_reads():
    (site,) = of_kind("ConfigMap", "site.yaml")
    policy = Policy.of(yaml.safe_load(site["data"]["policy.yaml"]))
    assert policy.raw == "never"
    (nightly,) = of_kind("ConfigMap", "nightly.yaml")
    pipeline = load_pipeline(yaml.safe_load(nightly["data"]["pipeline.yaml"]))
    check_pipeline(pipeline, n_clients=3)
    cluster = load_cluster(yaml.safe_load(nightly["data"]["cluster.yaml"]))
    (pod,) = pods("nightly.yaml")
    for path in (cluster.security.ca, cluster.security.cert, cluster.security.key):
        _, volume = pod.mount_of(path)
        assert "secret" in volume


# With programs and packages that are large


@pytest.mark.skipif(which("kubectl") is None, reason="kubectl is not here: make test-deploy")
@pytest.mark.parametrize("name", PLAIN)
def test_the_secret_is_made_as_the_file_says(name, tmp_path):
    text = (FOLDER / name).read_text("utf-8")
    (typed,) = re.findall(r"^#   kubectl (create secret .*\\\n.*)$", text, re.MULTILINE)
    names = {pod.mount_of("/tls")[1]["secret"]["secretName"] for pod in pods(name)}
    for file in ("ca.pem", "cert.pem", "key.pem"):
        (tmp_path / file).write_text("x")
    words = shlex.split(typed.replace("\\\n#", " "))
    done = subprocess.run(
        [which("kubectl"), *words, "--dry-run=client", "--output=yaml"],
        cwd=tmp_path, env={"PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    secret = yaml.safe_load(done.stdout)
    assert secret["metadata"]["name"] in names
    assert set(secret["data"]) == {"ca.pem", "cert.pem", "key.pem"}


@functools.cache
def schemas_of_dask():
    """Return the schemas of the operator's kinds, closed to fields that they do not name."""
    try:
        files = importlib.metadata.files("dask-kubernetes")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("dask-kubernetes is not installed: make test-deploy")
    found = {}
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # megabytes
    for file in files:
        if "/crds/" in str(file) and file.suffix == ".yaml":
            for crd in yaml.load_all(file.read_text(encoding="utf-8"), loader):
                if crd and crd["kind"] == "CustomResourceDefinition":
                    version = crd["spec"]["versions"][0]
                    schema = closed(version["schema"]["openAPIV3Schema"])
                    schema["properties"] |= {"apiVersion": {}, "kind": {}, "metadata": {}}
                    found[crd["spec"]["names"]["kind"]] = schema
    assert {"DaskCluster", "DaskWorkerGroup"} <= found.keys()
    return found


def closed(schema):
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: closed(value) for key, value in schema.items()}
    if made.pop("x-kubernetes-int-or-string", False):
        made.pop("type", None)
        made["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    whole = isinstance(made.get("properties"), dict) and made.get("type") == "object"
    if whole and not made.get("x-kubernetes-preserve-unknown-fields"):
        made.setdefault("additionalProperties", False)
    return made


def judge(document):
    """Raise what a schema finds wrong."""
    if document["apiVersion"].startswith("kubernetes.dask.org/"):
        jsonschema = pytest.importorskip("jsonschema", reason="jsonschema: make test-deploy")
        schema = schemas_of_dask()[document["kind"]]
        jsonschema.validate(document, schema)
    else:
        kubernetes_validate = pytest.importorskip(
            "kubernetes_validate", reason="kubernetes-validate is not installed: make test-deploy"
        )
        kubernetes_validate.validate(document, VERSION, strict=True)


@pytest.mark.deploy
@pytest.mark.parametrize("name", MANIFESTS)
def test_the_schemas_take_every_document(name):
    for document in documents(name):
        judge(document)


@pytest.mark.deploy
@pytest.mark.parametrize(
    ("name", "kind"),
    [("site.yaml", "Deployment"), ("nightly.yaml", "CronJob"), ("operator.yaml", "DaskCluster"),
     ("operator.yaml", "DaskWorkerGroup")],
)  # fmt: skip
def test_the_schemas_would_tell_of_a_wrong_field(name, kind):
    document = of_kind(kind, name)[0]
    held = document["spec"]["worker"] if "worker" in document["spec"] else document["spec"]
    held["replica"] = 1
    judge(of_kind(kind, name)[0])  # skips where there is no schema
    with pytest.raises(Exception, match="replica"):
        judge(document)
