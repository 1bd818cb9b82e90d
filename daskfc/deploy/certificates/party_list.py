"""The list of all who have certificates, in YAML: names and roles, as an authority decided them."""

import os

from daskfc.checks import shown
from daskfc.deploy.config.peers import check_identity
from daskfc.errors import InvalidInput
from daskfc.yaml_files import read_mapping

__all__ = ["read_parties"]


def read_parties(path: str | os.PathLike[str]) -> dict[str, str]:
    """Read the roles by name, in the file's order, from the key ``parties`` of a YAML file."""
    content = read_mapping(path, "parties", keys="the key 'parties'")
    found = content.get("parties")
    if content.keys() != {"parties"} or not isinstance(found, dict) or not found:
        raise InvalidInput(
            f"{path}: a parties file has the key 'parties' alone, a mapping of names to roles such "
            f"as 'hospital-a: client'; got {shown(content)}. Correct it."
        )
    for name, role in found.items():
        if not isinstance(name, str) or not isinstance(role, str):
            raise InvalidInput(
                f"{path}: names and roles must be text; got {shown(name)} with {shown(role)}. Put "
                "them in quotes."
            )
        try:
            check_identity(role, name)
        except InvalidInput as error:
            raise InvalidInput(f"{path}: {error}") from None
    return found
