"""Below which URLs stores may lie: what only looks as if it did is refused."""

import os

import pytest

from daskfc.site.prefixes import is_below


@pytest.mark.parametrize(
    ("url", "prefix"),
    [
        ("/srv/new/a.zarr", "/srv/new"),
        ("/srv/new", "/srv/new/"),
        ("file:///srv/new/a.zarr", "/srv/new"),
        ("/srv//new/./a.zarr/", "file:///srv/new"),
        ("/srv/a.zarr", "/"),
        ("s3://bucket/new/a.zarr/", "s3://bucket/new/"),
        ("S3://bucket/new/a.zarr", "s3://bucket/new"),
    ],
)
def test_below(url, prefix):
    assert is_below(url, ["/elsewhere", prefix])


@pytest.mark.parametrize(
    ("url", "prefix"),
    [
        ("/srv/newer/a.zarr", "/srv/new"),
        ("/srv", "/srv/new"),
        ("/srv/new/../old/a.zarr", "/srv/new"),
        ("s3://bucket/new/../old/a.zarr", "s3://bucket/new"),
        ("s3://bucket/new//../old", "s3://bucket/new"),
        ("s3://bucket/new//a", "s3://bucket/new"),
        ("s3://bucket/new/./a", "s3://bucket/new"),
        ("s3:///new/a", "s3:///new"),
        ("s3://bucket/newer", "s3://bucket/new"),
        ("s3://bucket2/new/a", "s3://bucket"),
        ("s3://bucket/NEW/a", "s3://bucket/new"),
        ("gs://bucket/new/a", "s3://bucket/new"),
        ("https://a.example/new/%2e%2e/old", "https://a.example/new"),
        ("simplecache::file:///etc/a", "simplecache:"),
        ("s3://bucket/new/a::memory", "s3://bucket/new"),
        ("/srv/new/${HOME}/a", "/srv/new"),
        ("~/a.zarr", "/"),
        ("", "/"),
        ("memory://a", "/"),
        ("/memory:/a", "memory://a"),
    ],
)
def test_not_below(url, prefix):
    assert not is_below(url, [prefix])


def test_no_prefix_has_anything_below():
    assert not is_below("/srv/a", [])


def test_a_link_leads_where_it_leads(tmp_path):
    allowed, other = tmp_path / "new", tmp_path / "old"
    for folder in (allowed, other):
        folder.mkdir()
    os.symlink(other, allowed / "link")
    assert is_below(str(allowed / "a.zarr"), [str(allowed)])
    assert not is_below(str(allowed / "link" / "a.zarr"), [str(allowed)])
    assert is_below(str(allowed / "link" / "a.zarr"), [str(other)])
