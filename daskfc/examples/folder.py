"""Write an example's files into a folder, and overwrite nothing."""

import csv
import io
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from daskfc.errors import InvalidInput
from daskfc.examples.hospitals import hospital_tables
from daskfc.folders import write_whole
from daskfc.naming import correction


@dataclass(frozen=True)
class Example:
    """An example's files, with the same relative paths in its folder and in the repository."""

    about: str
    pipeline: str
    storage: str
    cluster: str = "cluster-configs/local.yaml"
    made: bool = False  # whether it comes with data of its own

    @property
    def files(self) -> tuple[str, str, str]:
        """The YAML files."""
        return (self.pipeline, self.storage, self.cluster)


EXAMPLES: Mapping[str, Example] = {
    "digits": Example(
        "scikit-learn's handwritten digits, dealt to ten clients",
        "pipelines/omnifc.yaml",
        "storage/digits.yaml",
    ),
    "hospitals": Example(
        "csv files of three hospitals, made up, in the place of yours",
        "pipelines/hospitals.yaml",
        "storage/hospitals.yaml",
        made=True,
    ),
}


def _csv(rows: object) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)  # type: ignore[arg-type]
    return text.getvalue()


def _contents(example: Example) -> dict[str, str]:
    own = resources.files("daskfc.examples")
    texts = {name: own.joinpath(name).read_text(encoding="utf-8") for name in example.files}
    if example.made:
        tables = hospital_tables()
        texts |= {f"data/{hospital}.csv": _csv(rows) for hospital, rows in tables.items()}
    return texts


def write_example(name: str, folder: str | os.PathLike[str] = ".") -> list[Path]:
    """Write an example's files.

    Parameters
    ----------
    name : str
        A key of `EXAMPLES`.
    folder : path
        Where to write them; made if it is missing.

    Returns
    -------
    list of Path
        The files, the YAML files first.

    Raises
    ------
    InvalidInput
        For an unknown name, a file that is there already (nothing is written then), and a folder
        that cannot be written to.

    Examples
    --------
    >>> import tempfile
    >>> from daskfc.examples import write_example
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in write_example("hospitals", folder)][:2]
    ['hospitals.yaml', 'hospitals.yaml']
    """
    if name not in EXAMPLES:
        raise InvalidInput(
            f"no example is called {name!r}; there are {', '.join(EXAMPLES)}. "
            f"{correction(name, EXAMPLES, 'Choose one of these.')}"
        )
    texts = {Path(folder) / path: text for path, text in _contents(EXAMPLES[name]).items()}
    for path in texts:
        if os.path.lexists(path):
            raise InvalidInput(
                f"the example {name!r} writes only where nothing is yet; {str(path)!r} is there. "
                "Give another folder, or move that file."
            )
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, text.encode(), mode=0o644)
    except OSError as error:
        raise InvalidInput(
            f"the folder of the example {name!r} must be one that can be written to; got "
            f"{os.fspath(folder)!r}: {error.strerror}. Give another folder."
        ) from None
    return list(texts)
