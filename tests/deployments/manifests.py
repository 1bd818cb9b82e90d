"""What Kubernetes' manifests hold: their pods, ports and who may call whom."""

from dataclasses import dataclass

import yaml

from tests.deployments.lines import CONFIGS, parsed

FOLDER = CONFIGS / "kubernetes"
PLAIN = ("coordinator.yaml", "site.yaml", "nightly.yaml")
MANIFESTS = (*PLAIN, "operator.yaml")


def documents(name):
    """Return all documents of a manifest."""
    return list(yaml.safe_load_all((FOLDER / name).read_text("utf-8")))


def of_kind(kind, name):
    return [document for document in documents(name) if document["kind"] == kind]


@dataclass(frozen=True)
class Pod:
    """What a Deployment, a Job or the operator starts."""

    name: str
    labels: dict
    spec: dict

    @property
    def container(self):
        (only,) = self.spec["containers"]
        return only

    @property
    def words(self):
        assert self.container["command"] == ["daskfc"]
        return self.container["args"]

    @property
    def options(self):
        return parsed(self.words)

    @property
    def listens(self):
        """The ports of its command."""
        found = self.options
        return {found[key] for key in ("port", "nanny_port") if key in found}

    @property
    def declared(self):
        return {port["name"]: port["containerPort"] for port in self.container.get("ports", ())}

    def mount_of(self, path):
        """Return the mount that holds a path, and its volume."""
        (mount,) = [
            one for one in self.container["volumeMounts"] if f"{path}/".startswith(one["mountPath"])
        ]
        (volume,) = [one for one in self.spec["volumes"] if one["name"] == mount["name"]]
        return mount, volume

    def selected_by(self, selector):
        wanted = selector["matchLabels"] if "matchLabels" in selector else selector
        return wanted.items() <= self.labels.items()


def _of_operator(cluster, group, spec):
    labels = {"dask.org/cluster-name": cluster}
    if group == "scheduler":
        return Pod(group, {**labels, "dask.org/component": "scheduler"}, spec)
    labels |= {"dask.org/component": "worker", "dask.org/workergroup-name": group}
    return Pod(group, labels, spec)


def pods(name):
    """Return all pods of a manifest."""
    found = []
    for document in documents(name):
        title, spec = document["metadata"]["name"], document.get("spec")
        if document["kind"] == "CronJob":
            spec = spec["jobTemplate"]["spec"]
        if document["kind"] in ("CronJob", "Deployment"):
            template = spec["template"]
            found.append(Pod(title, template["metadata"]["labels"], template["spec"]))
        elif document["kind"] == "DaskCluster":
            found.append(_of_operator(title, f"{title}-default", spec["worker"]["spec"]))
            found.append(_of_operator(title, "scheduler", spec["scheduler"]["spec"]))
        elif document["kind"] == "DaskWorkerGroup":
            found.append(_of_operator(spec["cluster"], title, spec["worker"]["spec"]))
    return found


def services(name):
    """Return the specs of all Services."""
    found = [document["spec"] for document in of_kind("Service", name)]
    clusters = of_kind("DaskCluster", name)
    return found + [cluster["spec"]["scheduler"]["service"] for cluster in clusters]


def ports_of(rules):
    """Return the ports of a policy's rules."""
    return {port["port"] for rule in rules for port in rule["ports"]}
