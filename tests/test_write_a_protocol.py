"""The page on writing a protocol, as a reader would follow it: a package outside of daskfc."""

import ast
import io
import json
import os
import re
import subprocess
import sys
import tokenize
from pathlib import Path

import numpy as np
import pytest
import yaml
from sklearn.datasets import load_iris
from sklearn.metrics import cohen_kappa_score
from sklearn.mixture import GaussianMixture

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "write-a-protocol.md").read_text(encoding="utf-8")
MOST_LINES = 110  # of code, that a method with `predict` may take


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The page's package, installed in a folder of its own."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "fedgmm.py").write_text("\n\n".join(blocks("python")), encoding="utf-8")
    found = folder / "fedgmm-0.1.dist-info"
    found.mkdir()
    (found / "METADATA").write_text("Metadata-Version: 2.1\nName: fedgmm\nVersion: 0.1\n")
    (toml,) = blocks("toml")
    (line,) = re.findall(r"^FedGMM = \"(.*)\"$", toml, flags=re.MULTILINE)
    (found / "entry_points.txt").write_text(f"[daskfc.methods]\nFedGMM = {line}\n")
    return folder


def run(package, *arguments, cwd):
    path = os.pathsep.join((str(ROOT), str(package)))
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def lines_of_code(source):
    """Lines with something on them that is neither a comment nor documentation."""
    documented = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            documented |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    nothing = {"COMMENT", "NL", "NEWLINE", "INDENT", "DEDENT", "ENDMARKER"}
    held = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if tokenize.tok_name[token.type] not in nothing:
            held |= set(range(token.start[0], token.end[0] + 1))
    return len(held - documented)


def test_a_protocol_takes_an_afternoon():
    assert lines_of_code("\n\n".join(blocks("python"))) <= MOST_LINES


def test_a_line_of_code_is_what_one_would_count():
    source = '"""Doc."""\n\nx = 1  # one\n\n\ndef f():\n    """More."""\n    # why\n'
    source += "    return (\n        1)\n"
    assert lines_of_code(source) == 4


LATER = """
import sys
from daskfc.cli import main
main(["methods"], standalone_mode=False)
print("---")
main(["report", sys.argv[1]], standalone_mode=False)
"""


@pytest.mark.slow
def test_an_installed_method_runs_like_ours(package, tmp_path):
    (pipeline,) = blocks("yaml")
    (tmp_path / "fedgmm.yaml").write_text(pipeline)
    storage = str(ROOT / "storage" / "iris.yaml")
    command = ["-m", "daskfc", "run", "fedgmm.yaml", "--storage", storage, "--json"]
    done = run(package, *command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["status"] == "done"
    assert summary["metrics"]["FedGMM"]["kappa"]["mean"] > 0.85
    assert set(summary["communication"]["by_message"]) == {
        "PublicKeys", "Magnitude", "MaskedPart", "Mixture", "PseudonymousSamples",
    }  # fmt: skip
    folder = next((tmp_path / "runs").iterdir())
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "weights, means and variances of the clusters over all clients" in page
    later = run(package, "-c", LATER, str(folder), cwd=tmp_path)
    assert later.returncode == 0, later.stderr
    listed, again = later.stdout.split("\n---\n")
    assert "FedGMM" in listed
    assert "A. P. Dempster" in listed
    assert "FedGMM" in again


FIT = """
import sys
import numpy as np
import fedgmm
from daskfc.testing.federation import federation_of

if __name__ == "__main__":
    arrays = np.load(sys.argv[1])
    rows = {name: arrays[name] for name in arrays.files}
    with federation_of(sys.argv[2], rows) as federation:
        model = fedgmm.FedGMM(3).fit(federation)
        own = model.labels_.values[np.asarray(model.labels_.client) == "b"]
        new = model.predict(federation, {"b": f"{sys.argv[2]}/b.zarr"}).values
        assert new.tolist() == own.tolist()
        senders = {row.message: row.protection for row in model.ledger_.rows}
    mixture = model.mixture_
    np.savez(sys.argv[3], labels=model.labels_.values, likelihood=mixture.log_likelihood,
             weights=mixture.weights[0], means=mixture.means[0], variances=mixture.variances[0],
             masked=senders["MaskedPart"] == "masked")
"""


@pytest.mark.long
@pytest.mark.slow
def test_the_mixture_is_that_of_the_pooled_samples(package, tmp_path):
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    dealt = dict(zip("abcd", np.array_split(order, 4), strict=True))
    np.savez(tmp_path / "rows.npz", **{name: X[rows] for name, rows in dealt.items()})
    (tmp_path / "fit.py").write_text(FIT)
    done = run(package, "fit.py", "rows.npz", "stores", "found.npz", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = np.load(tmp_path / "found.npz")
    assert found["masked"]
    # One more round of the pooled EM, from where the federated one ended, changes nothing.
    pooled = GaussianMixture(
        3, covariance_type="diag", max_iter=1, reg_covar=0.0, weights_init=found["weights"],
        means_init=found["means"], precisions_init=1 / found["variances"],
    )  # fmt: skip
    with pytest.warns(UserWarning, match="did not converge"):
        pooled.fit(X)
    np.testing.assert_allclose(pooled.means_, found["means"], atol=5e-3)
    assert pooled.score(X) == pytest.approx(float(found["likelihood"][0]), abs=2e-4)
    # It is as likely as the best of scikit-learn's starts, and its clusters are the species.
    best = GaussianMixture(3, covariance_type="diag", n_init=5, random_state=0).fit(X)
    assert found["likelihood"][0] >= best.score(X) - 1e-3
    truth = y[np.concatenate(list(dealt.values()))]
    names = [np.bincount(truth[found["labels"] == k]).argmax() for k in range(3)]
    assert cohen_kappa_score(truth, np.array(names)[found["labels"]]) > 0.85


def test_the_pages_pipeline_is_yaml():
    (pipeline,) = blocks("yaml")
    assert yaml.safe_load(pipeline)["method"] == "FedGMM"
