"""The cluster file for sites over TLS goes with what is issued to a submitter."""

import shutil

import pytest
import yaml

from daskfc.deploy import ExistingCluster, load_cluster
from daskfc.deploy.certificates.authority import Authority
from daskfc.deploy.certificates.kit import kit_of, write_kit
from daskfc.deploy.certificates.tls import security_of
from tests.deployments.lines import CONFIGS

FILE = CONFIGS / "tls-sites.yaml"


@pytest.fixture
def ana(tmp_path):
    authority = Authority.create(tmp_path / "ca")
    issued = authority.issue("submitter", "ana")
    folder = authority.folder_of("ana")
    write_kit(folder, kit_of(issued, policy=""))
    return folder


def test_it_is_put_beside_the_certificates(ana):
    shutil.copy(FILE, ana)
    found = load_cluster(ana / FILE.name)
    assert isinstance(found, ExistingCluster)
    assert found.security.key == str(ana / "key.pem")
    context = security_of(found.security).get_connection_args("client")["ssl_context"]
    assert context.get_ca_certs()  # the files are read, and belong together
    assert found.expect == ("hospital-a", "hospital-b", "hospital-c")
    assert found.startup > found.deadline


def test_it_has_what_the_folder_says_of_a_cluster_file(ana):
    ours, theirs = (yaml.safe_load(path.read_text()) for path in (FILE, ana / "cluster.yaml"))
    assert theirs.keys() <= ours.keys()
    assert ours["security"] == theirs["security"]
    assert ours["deadline"] == theirs["deadline"]
