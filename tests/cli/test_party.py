import pytest

TCP = ("--scheduler", "tcp://127.0.0.1:1")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a", *TCP], "--store"),
        (["server", *TCP, "--store", "x"], "holds no data"),
        (["caller", *TCP, "--store", "x"], "'caller'"),
        (["a/b", *TCP, "--store", "x"], "name"),
        (["a", *TCP, "--store", "none.zarr"], "none.zarr"),
        (["server", *TCP, "--memory-limit", "2 fast"], "memory"),
        (["server", *TCP, "--tls-cert", "c.pem"], "together"),
    ],
)
def test_bad_input_is_2_and_one_line(daskfc, words, said):
    result = daskfc("party", *words)
    assert result.exit_code == 2, result.output
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_party_needs_a_scheduler(daskfc):
    assert daskfc("party", "a").exit_code == 2


@pytest.mark.slow
def test_an_unreachable_scheduler_is_75(daskfc):
    result = daskfc("party", "server", *TCP)
    assert result.exit_code == 75
    assert "tcp://127.0.0.1:1" in result.stderr
