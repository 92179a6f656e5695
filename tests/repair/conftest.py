from __future__ import annotations

from collections.abc import Iterator

import pytest
from repair_toys import TOY, WIDE, Garage, run_of, trained_subject, write_drive

from skidpad.drives.opening import open_drive
from skidpad.subjects.zoo import ARCHITECTURES


@pytest.fixture(scope="session")
def garage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Garage]:
    with pytest.MonkeyPatch.context() as patch:
        ARCHITECTURES.names()  # loads the rows, so that ours are the only ones added and taken away
        for architecture in (TOY, WIDE):
            patch.setitem(ARCHITECTURES._rows, architecture.name, architecture)
        folder = tmp_path_factory.mktemp("garage")
        train_text, test_text = write_drive(folder / "train", 60), write_drive(folder / "test", 50, first=300)
        subject = trained_subject(open_drive(train_text), folder / "toy")
        run = run_of(folder / "toy.toml", test_text, folder / "run")
        yield Garage(folder, folder / "toy.toml", subject, train_text, open_drive(train_text), test_text, run)
