import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from box_toys import described, grey, means, write_toml

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.boxes.protocol import BoxFailureError, Failures
from skidpad.subjects.boxes.subject import BoxSubject, answer_rows
from skidpad.subjects.description import Box
from skidpad.subjects.loading import load_subject

MEAN = "def steer(pictures):\n    return pictures.mean((1, 2, 3))\n"


@pytest.fixture(autouse=True)
def clean_imports() -> Iterator[None]:
    """Modules and folders that a test brought in go with it."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith("boxed_"):
            del sys.modules[name]


def of_function(folder: Path, module: str, source: str, *, restarts: int = 3, name: str = "steer") -> BoxSubject:
    (folder / f"{module}.py").write_text(source)
    return BoxSubject(described(Box(function=f"{module}:{name}", restarts=restarts)), folder)


def test_a_function_beside_the_description_is_called_with_the_described_input(tmp_path: Path) -> None:
    (tmp_path / "boxed_neighbour.py").write_text("SHIFT = 0.5\n")
    (tmp_path / "boxed_mean.py").write_text(
        "import numpy\nfrom boxed_neighbour import SHIFT\n\n\nclass Net:\n    @staticmethod\n    def steer(x):\n"
        "        x += SHIFT\n        assert x.dtype == numpy.float32 and x.shape[1:] == (66, 200, 3)\n        return x.mean((1, 2, 3))\n"
    )
    subject = load_subject(write_toml(tmp_path, Box(function="boxed_mean:Net.steer")))
    frames = grey(0, 99, 255)
    np.testing.assert_allclose(subject.predict(frames), means(frames) + 0.5, atol=1e-5)
    np.testing.assert_allclose(subject.predict(torch.from_numpy(frames)), means(frames) + 0.5, atol=1e-5)


def test_what_a_function_raises_is_counted(tmp_path: Path) -> None:
    subject = of_function(tmp_path, "boxed_raises", MEAN.replace("return", "if pictures.mean((1, 2, 3)).max() > 2.9: 1 / 0\n    return"))
    answers = subject.predict(grey(10, 255, 20))
    np.testing.assert_allclose(answers[[0, 2]], means(grey(10, 20)), atol=1e-5)
    assert np.isnan(answers[1, 0])
    assert subject.failures == Failures(1, 3, "raised ZeroDivisionError: division by zero")


def test_a_function_that_always_raises_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSubjectError, match=r"the function 'boxed_exits:steer' was asked 2 times.*raised SystemExit: 3; call it by hand"):
        of_function(tmp_path, "boxed_exits", "import sys\n\n\ndef steer(pictures):\n    sys.exit(3)\n", restarts=1)


@pytest.mark.parametrize(
    ("module", "source", "name", "message"),
    [
        ("boxed_a", "import no_such_module_here", "steer", r"cannot be imported from .*No module named 'no_such_module_here'"),
        ("boxed_b", "def steer(:", "steer", "SyntaxError"),
        ("boxed_c", "raise SystemExit('not now')", "steer", "not now"),
        ("boxed_d", "", "steer", "has no 'steer'; correct"),
        ("boxed_e", "steer = 3", "steer", "is a int and cannot be called"),
        ("boxed_f", "", "a b", 'is named as "module:name"'),
        ("random", "", "steer", "another module named 'random' was imported from .*rename the file random.py"),
    ],
)
def test_code_that_cannot_be_had_is_one_sentence(module: str, source: str, name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(BadSubjectError, match=message) as caught:
        of_function(tmp_path, module, source, name=name)
    assert "\n" not in str(caught.value)


def test_the_hash_follows_the_source(tmp_path: Path) -> None:
    first = of_function(tmp_path, "boxed_hashed", MEAN).sha256
    assert of_function(tmp_path, "boxed_hashed", MEAN).sha256 == first
    assert of_function(tmp_path, "boxed_hashed", MEAN + "\n").sha256 != first


TWO = np.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize(
    "result",
    [
        TWO,
        TWO.astype(np.float32),
        TWO.tolist(),
        torch.tensor(TWO, requires_grad=True),
        tuple(TWO.T),
        (TWO[:, :1], torch.tensor(TWO[:, 1])),
        [TWO[:, :1], TWO[:, 1:]],
        list(TWO),
        TWO.reshape(3, 2, 1),
    ],
)
def test_every_usual_form_of_an_answer_is_understood(result: object) -> None:
    np.testing.assert_array_equal(answer_rows(result, 3, 2), TWO)


@pytest.mark.parametrize("result", [np.arange(3), [0, 1, 2], np.arange(3.0).reshape(3, 1), ([0, 1, 2],)])
def test_one_output_may_be_a_plain_list(result: object) -> None:
    np.testing.assert_array_equal(answer_rows(result, 3, 1), [[0.0], [1.0], [2.0]])


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (None, "must answer numbers; got None"),
        (0.5, "must answer 3 rows"),
        ((), "must answer 3 rows for 3 pictures; got nothing"),
        (np.zeros((3, 4)), r"one for each \[\[outputs\]\]; got 4"),
        (np.zeros((2, 2)), "must answer 3 rows"),
        (["a", "b", "c"], "must answer numbers"),
        ([[1.0], [1.0, 2.0], []], "must answer numbers"),
        (np.zeros((3, 2), complex), "must answer numbers"),
        (np.zeros((3, 2), bool), "must answer numbers"),
    ],
)
def test_other_answers_are_failures_in_words(result: object, message: str) -> None:
    with pytest.raises(BoxFailureError, match=message):
        answer_rows(result, 3, 2)
