"""Mapping over shards: order, resume, interruption."""

import pytest
from runs_toy_campaign import make, shard

from skidpad.core.errors import BadRunError, IncompleteRunError, InterruptedRunError, LostDriveError, LostWorkError, WorkersError
from skidpad.kinds.shards import one_by_one, run_shards
from skidpad.runs.folder import Run


class Recorder:
    def __init__(self, stop_at=None):
        self.computed = []
        self.stop_at = stop_at

    def __call__(self, index):
        if index == self.stop_at:
            raise KeyboardInterrupt
        self.computed.append(index)
        return shard("mutants", index)


def test_missing_shards_are_computed_in_order_and_told(tmp_path):
    run = make(tmp_path / "run")
    run.commit(shard("mutants", 2))
    work, told = Recorder(), []
    run_shards(run, "mutants", 5, one_by_one(work), lambda done, total, note="": told.append((done, total, note)))
    assert work.computed == [0, 1, 3, 4]
    assert told == [(done, 5, "mutants") for done in (1, 2, 3, 4, 5)]
    again = Recorder()
    run_shards(run, "mutants", 5, one_by_one(again))
    assert again.computed == []


def test_an_interrupt_keeps_what_was_computed_and_says_how_to_go_on(tmp_path):
    run = make(tmp_path / "a run")
    with pytest.raises(
        InterruptedRunError, match=r"3 of 5 shards of phase 'mutants' are kept; go on with: skidpad resume '.*a run'"
    ) as caught:
        run_shards(run, "mutants", 5, one_by_one(Recorder(stop_at=3)))
    assert caught.value.exit_code == 130
    resumed = Run.open(run.path)
    work = Recorder()
    run_shards(resumed, "mutants", 5, one_by_one(work))
    assert work.computed == [3, 4]


@pytest.mark.parametrize(("function", "kept"), [("os.fsync", 1), ("sync_folder", 2)])
def test_an_interrupt_inside_a_commit_loses_or_keeps_the_whole_shard(tmp_path, monkeypatch, function, kept):
    run = make(tmp_path / "run")
    run.commit(shard("mutants", 0))

    def interrupt(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(f"skidpad.core.files.{function}", interrupt)
        with pytest.raises(InterruptedRunError, match=f"{kept} of 3 shards"):
            run_shards(run, "mutants", 3, one_by_one(Recorder()))
    assert list((run.path / "segments").glob(".*")) == []
    assert Run.open(run.path).completed("mutants") == set(range(kept))


def test_results_may_come_in_any_order(tmp_path):
    straight, reversed_ = make(tmp_path / "a"), make(tmp_path / "b")
    run_shards(straight, "mutants", 4, one_by_one(Recorder()))
    run_shards(reversed_, "mutants", 4, lambda indices: map(Recorder(), reversed(indices)))
    names = [sorted(path.name for path in (run.path / "segments").iterdir()) for run in (straight, reversed_)]
    assert names[0] == names[1]
    assert straight.records().equals(reversed_.records())


def test_a_phase_that_shrank_is_refused(tmp_path):
    run = make(tmp_path / "run")
    run_shards(run, "mutants", 4, one_by_one(Recorder()))
    with pytest.raises(BadRunError, match="holds shard 3 of phase 'mutants', but the phase has only 3"):
        run_shards(run, "mutants", 3, one_by_one(Recorder()))


def test_work_must_answer_with_a_shard_of_the_phase(tmp_path):
    run = make(tmp_path / "run")
    with pytest.raises(ValueError, match="work answered 'mutants' 0"):
        run_shards(run, "originals", 2, one_by_one(Recorder()))
    with pytest.raises(ValueError, match="work answered 'mutants' 9"):
        run_shards(run, "mutants", 2, one_by_one(lambda index: shard("mutants", 9)))
    assert run.records().num_rows == 0


def test_an_error_in_the_work_passes_through_and_keeps_the_rest(tmp_path):
    run = make(tmp_path / "run")

    def work(index):
        if index == 2:
            raise BadRunError("the drive is gone")
        return shard("mutants", index)

    with pytest.raises(BadRunError, match="the drive is gone"):
        run_shards(run, "mutants", 4, one_by_one(work))
    assert Run.open(run.path).completed("mutants") == {0, 1}


@pytest.mark.parametrize(
    ("error", "told", "words"),
    [
        (LostDriveError("the folder is gone"), LostDriveError, "the folder is gone; 2 of 4 shards"),
        (WorkersError("the head is gone"), WorkersError, "the head is gone; 2 of 4 shards"),
        (LostWorkError({"frames 4 to 7": "killed"}), IncompleteRunError, "frames 4 to 7: killed.*2 of 4 shards"),
    ],
)
def test_what_a_resume_can_mend_says_so(tmp_path, error, told, words):
    run = make(tmp_path / "run")

    def shards(indices):
        yield from map(Recorder(), indices[:2])
        raise error

    with pytest.raises(told, match=f"{words} of phase 'mutants' are kept; go on with: skidpad resume ") as caught:
        run_shards(run, "mutants", 4, shards)
    assert caught.value.exit_code == (3 if told is IncompleteRunError else 2)
    work = Recorder()
    run_shards(Run.open(run.path), "mutants", 4, one_by_one(work))
    assert work.computed == [2, 3]
