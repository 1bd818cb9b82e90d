"""An authority's certificates: who they are of, how long they are valid, who can read the keys."""

import datetime
import ssl
import stat
import threading

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from daskfc.deploy.certificates.authority import Authority
from daskfc.deploy.certificates.issued import Issued
from daskfc.deploy.config.peers import ROLES
from daskfc.errors import InvalidInput


@pytest.fixture
def authority(tmp_path):
    return Authority.create(tmp_path / "ca", "trial")


def handshake(server, client):
    """Let two sides of TLS meet over pipes; return the certificates that they saw of each other."""

    def context(folder, purpose):
        made = ssl.create_default_context(purpose, cafile=str(folder / "ca.pem"))
        made.verify_mode = ssl.CERT_REQUIRED  # as Dask's: both sides show one
        made.check_hostname = False
        made.load_cert_chain(str(folder / "cert.pem"), str(folder / "key.pem"))
        return made

    def side(folder, purpose, incoming, outgoing, is_server):
        return context(folder, purpose).wrap_bio(incoming, outgoing, server_side=is_server)

    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        side(server, ssl.Purpose.CLIENT_AUTH, to_server, to_client, True),
        side(client, ssl.Purpose.SERVER_AUTH, to_client, to_server, False),
    ]
    done = [False, False]
    for _ in range(10):
        for i in (1, 0):
            try:
                sides[i].do_handshake()
                done[i] = True
            except ssl.SSLWantReadError:
                continue
    assert done == [True, True]
    return [one.getpeercert() for one in sides]


def test_two_parties_prove_who_they_are_to_each_other(authority):
    authority.issue("server", "server")
    authority.issue("client", "hospital-a")
    of_client, of_server = handshake(
        authority.folder_of("server"), authority.folder_of("hospital-a")
    )
    assert ("URI", "daskfc:client/hospital-a") in of_client["subjectAltName"]
    assert ("URI", "daskfc:server/server") in of_server["subjectAltName"]


def test_a_party_of_another_authority_is_no_party(authority, tmp_path):
    authority.issue("server", "server")
    other = Authority.create(tmp_path / "other", "trial")
    other.issue("client", "hospital-a")
    with pytest.raises(ssl.SSLError, match=r"certificate verify failed|unknown ca"):
        handshake(authority.folder_of("server"), other.folder_of("hospital-a"))


def test_a_party_cannot_sign_for_others(authority, tmp_path):
    authority.issue("client", "hospital-a")
    mine = authority.folder_of("hospital-a")
    forged = Authority.create(tmp_path / "forged", "trial")
    for name, source in (("ca.pem", "cert.pem"), ("ca-key.pem", "key.pem")):
        (forged.folder / name).write_bytes((mine / source).read_bytes())
    forged = Authority(forged.folder)
    forged.issue("server", "server", days=1)
    of_server = forged.folder_of("server")
    chain = (of_server / "cert.pem").read_bytes() + (mine / "cert.pem").read_bytes()
    (of_server / "cert.pem").write_bytes(chain)
    (of_server / "ca.pem").write_bytes((mine / "ca.pem").read_bytes())
    with pytest.raises(ssl.SSLError, match=r"certificate verify failed|invalid CA"):
        handshake(forged.folder_of("server"), mine)


def test_nobody_else_can_read_a_key(authority):
    authority.issue("client", "hospital-a")
    for path in authority.folder.rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path
    assert {path.name for path in authority.folder_of("hospital-a").iterdir()} == {
        "ca.pem", "cert.pem", "key.pem"
    }  # fmt: skip


def test_what_an_authority_wrote_is_found_by_later_releases(authority):
    """Names of its files are kept: another would forget certificates and revocations."""
    authority.issue("client", "a")
    authority.issue("client", "b")
    authority.revoke("b")
    found = {str(path.relative_to(authority.folder)) for path in authority.folder.rglob("*.pem")}
    assert {"ca.pem", "ca-key.pem", "revoked.pem", "parties/a/cert.pem"} <= found
    for name in "ab":
        assert sum(one.startswith(f"issued/{name}/") for one in found) == 1


@pytest.mark.parametrize("role", ROLES)
def test_a_certificate_says_role_name_and_hosts(authority, role):
    name = {"server": "server-2"}.get(role, "some-one")
    issued = authority.issue(role, name, hosts=["a.example", "10.0.0.1"], days=30)
    assert (issued.role, issued.name) == (role, name)
    assert issued.hosts == ("a.example", "10.0.0.1")
    now = datetime.datetime.now(datetime.UTC)
    assert datetime.timedelta(days=29) < issued.ends - now < datetime.timedelta(days=30)
    assert issued.begins < now
    assert list(authority.issued()) == [issued]
    signed = x509.load_pem_x509_certificate((authority.folder_of(name) / "cert.pem").read_bytes())
    assert not signed.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not signed.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign


def test_a_renewed_certificate_is_of_the_same_key(authority):
    first = authority.issue("client", "hospital-a", hosts=["a.example"], days=1)
    key = (authority.folder_of("hospital-a") / "key.pem").read_bytes()
    second = authority.renew("hospital-a", days=60)
    assert (authority.folder_of("hospital-a") / "key.pem").read_bytes() == key
    assert (second.role, second.name, second.hosts) == (first.role, first.name, first.hosts)
    assert second.serial != first.serial
    assert second.ends - first.ends > datetime.timedelta(days=58)
    authority.issue("server", "server")
    handshake(authority.folder_of("server"), authority.folder_of("hospital-a"))


@pytest.mark.parametrize(
    ("role", "name", "days", "match"),
    [
        ("doctor", "a", 1, "a role must be one of client, server, scheduler, submitter"),
        ("server", "hospital-a", 1, "the server's party is called 'server'"),
        ("server", "server-1", 1, "'server-2' and so on; got 'server-1'"),
        ("client", "server-2", 1, "may not be called 'server-2'"),
        ("client", "../a", 1, "must be 1 to 63 letters"),
        ("client", "a", 4000, "may not outlast its authority, which ends on"),
        ("client", "a", 0, "at least one day"),
    ],
)
def test_who_cannot_have_a_certificate(authority, role, name, days, match):
    with pytest.raises(InvalidInput, match=match):
        authority.issue(role, name, days=days)
    assert not (authority.folder / "parties").exists()


def test_a_name_has_one_certificate(authority):
    authority.issue("client", "a")
    with pytest.raises(InvalidInput, match="'a' has a certificate"):
        authority.issue("submitter", "a")


def test_what_is_no_authority(tmp_path, authority):
    with pytest.raises(InvalidInput, match=r"no certificate authority is there \(FileNotFound"):
        Authority(tmp_path / "none")
    with pytest.raises(InvalidInput, match="cannot be made"):
        Authority.create(authority.folder)
    with pytest.raises(InvalidInput, match="1 to 64 characters"):
        Authority.create(tmp_path / "new", "x" * 65)
    with pytest.raises(InvalidInput, match="'b' has no certificate"):
        authority.renew("b")
    ca = x509.load_pem_x509_certificate((authority.folder / "ca.pem").read_bytes())
    with pytest.raises(InvalidInput, match="must say its role and name"):
        Issued.of(ca)


def test_keys_are_not_the_same(authority):
    for name in "ab":
        authority.issue("client", name)
    keys = {
        serialization.load_pem_private_key(path.read_bytes(), None).private_numbers().private_value
        for path in authority.folder.rglob("*key.pem")
    }
    assert len(keys) == 3


def test_one_name_is_issued_once_even_at_the_same_time(authority):
    issued = []

    def issue():
        try:
            issued.append(authority.issue("client", "a"))
        except InvalidInput:
            issued.append(None)

    threads = [threading.Thread(target=issue) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(one is not None for one in issued) == 1
