"""Steps and messages of a server of several workers: importable, as `tests.federation.steps`."""

import os
from pathlib import Path

import numpy as np

from daskfc.federation import Message, array
from tests.federation.steps import Vector


class Task(Message, route="server → server worker", reveals="a number"):
    number: int


class Part(Message, route="server worker → server", reveals="a product"):
    values: np.ndarray = array("n", dtype="float64")


def task_of(number) -> Task:
    return Task(number)


class Answer(Message, route=("client → server", "client → server worker"), reveals="a number"):
    number: int


def answer_of(data, *, number) -> Answer:
    return Answer(int(data.n_samples) + number)


def part_of_answers(answers) -> Part:
    return Part(np.array([float(answer.number) for answer in answers.values()]))


def part_of(task, *, number) -> Part:
    return Part(np.array([float(task.number * number)]))


def part_of_data(data, *, number) -> Part:
    return Part(np.array([float(number)]))


def held_part(task, *, ways) -> Part:
    """Say that it runs and wait, where there are ways to do so."""
    if ways is not None:
        started, release = ways
        Path(started).write_text(str(os.getpid()))
        Path(release).read_text()
    return Part(np.array([float(task.number)]))


def parts_together(own, parts) -> Vector:
    return Vector(np.concatenate([own.values, *(part.values for part in parts.values())]))
