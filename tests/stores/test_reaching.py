"""Stores and files of another machine: what its library raises is told in a sentence."""

import fsspec
import pytest
from click.testing import CliRunner
from fsspec.implementations.memory import MemoryFileSystem

from daskfc.cli import main
from daskfc.errors import StoreAway, StoreError
from daskfc.stores import ClientStore, write_store


class EndpointConnectionError(Exception):
    """As the library of S3 has it: no OSError."""


class NoCredentialsError(Exception):
    """Likewise."""


TROUBLES = [
    (EndpointConnectionError("Could not connect to the endpoint"), 75, "does not answer"),
    (TimeoutError("timed out"), 75, "does not answer"),
    (NoCredentialsError("Unable to locate credentials"), 2, "lacks credentials"),
    (PermissionError("Access Denied"), 2, "lacks credentials"),
]


class FarFileSystem(MemoryFileSystem):
    """A place that fails from a moment on."""

    protocol = ("far",)
    trouble = None

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(str(path).replace("far://", "memory://"))

    def _or_trouble(self):
        if FarFileSystem.trouble is not None:
            raise FarFileSystem.trouble

    def exists(self, path, **kwargs):
        self._or_trouble()
        return super().exists(path, **kwargs)

    def cat_file(self, path, *args, **kwargs):
        self._or_trouble()
        return super().cat_file(path, *args, **kwargs)

    def info(self, path, **kwargs):
        self._or_trouble()
        return super().info(path, **kwargs)

    def find(self, path, *args, **kwargs):
        self._or_trouble()
        return super().find(path, *args, **kwargs)

    def _open(self, path, *args, **kwargs):
        self._or_trouble()
        return super()._open(path, *args, **kwargs)


@pytest.fixture
def far(monkeypatch, tmp_path):
    fsspec.register_implementation("far", FarFileSystem, clobber=True)
    monkeypatch.setattr(FarFileSystem, "trouble", None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text("method: FedSC\nparams: {n_clusters: 2}\n")
    (tmp_path / "there.yaml").write_text("clients: {a: {store: 'far://b/a.zarr'}}\n")
    (tmp_path / "build.yaml").write_text(
        "source: {dataset: iris}\npartition: {scheme: iid, clients: 3, seed: 0}\nroot: far://b/x\n"
    )
    (tmp_path / "source.yaml").write_text(
        "clients: {a: {source: {path: 'far://b/a.csv'}}}\nroot: stores\n"
    )


@pytest.mark.parametrize("words", [
    ("stores", "check", "there.yaml"),
    ("stores", "inspect", "there.yaml"),
    ("stores", "build", "build.yaml"),
    ("stores", "build", "source.yaml"),
    ("run", "p.yaml", "--storage", "there.yaml"),
    ("run", "p.yaml", "--storage", "build.yaml"),
])  # fmt: skip
@pytest.mark.parametrize(
    ("trouble", "code", "said"), TROUBLES, ids=[type(one[0]).__name__ for one in TROUBLES]
)
def test_a_place_that_fails_is_a_sentence(far, monkeypatch, words, trouble, code, said):
    monkeypatch.setattr(FarFileSystem, "trouble", trouble)
    done = CliRunner().invoke(main, list(words))
    assert done.exit_code == code, done.output
    assert said in done.stderr
    assert "unexpected" not in done.output


def test_a_place_that_fails_later_is_told_by_the_client(far, monkeypatch):
    write_store("memory://b/a.zarr", "a", [[1.0, 2.0]], ["one"])
    store = ClientStore.open("far://b/a.zarr")
    assert store.rows(0, 1).tolist() == [[1.0, 2.0]]
    monkeypatch.setattr(FarFileSystem, "trouble", EndpointConnectionError())
    with pytest.raises(StoreAway, match=r"far://b/a\.zarr: its place does not answer"):
        store.rows(0, 1)
    with pytest.raises(StoreError):
        ClientStore.open("far://b/a.zarr")
