import gc
import os
import select
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from box_toys import GOOD, described, grey, means, of_program, program, write_toml

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.boxes import program as program_module
from skidpad.subjects.boxes.protocol import Failures
from skidpad.subjects.boxes.subject import BoxSubject
from skidpad.subjects.description import Box
from skidpad.subjects.loading import load_network, load_subject

FRAMES = np.random.default_rng(3).integers(0, 256, (5, 66, 200, 3), dtype=np.uint8)
WITH_PID = "reply([[mean, os.getpid()] for mean in means])"
WHITE_KILLS = "if max(means) > 2.99: os._exit(9)\n"


def test_a_program_answers_as_a_network_does(tmp_path: Path) -> None:
    program(tmp_path)
    box = Box(command=(sys.executable, "-S", "serve.py"))
    with load_subject(write_toml(tmp_path, box)) as subject:
        assert isinstance(subject, BoxSubject)
        assert (subject.layers, subject.lead, subject.failures) == ((), 0, Failures())
        np.testing.assert_allclose(subject.predict(FRAMES), means(FRAMES), atol=1e-5)
        observed = subject.observe(FRAMES)
        np.testing.assert_allclose(observed.answers, means(FRAMES), atol=1e-5)
        assert observed.values.shape == (5, 0)
        assert subject.predict(FRAMES[:0]).shape == (0, 1)
        subject.batch_size = 2
        np.testing.assert_allclose(subject.predict(FRAMES), means(FRAMES), atol=1e-5)
        turned = subject.predict(grey(0, 128), now=grey(10, 20))
        np.testing.assert_allclose(turned, means(grey(10, 20)), atol=1e-5)


def test_a_box_has_no_weights_to_train(tmp_path: Path) -> None:
    program(tmp_path)
    with pytest.raises(BadSubjectError, match="is a black box: its weights are not here"):
        load_network(write_toml(tmp_path, Box(command=(sys.executable, "-S", "serve.py"))))


def test_babble_does_not_matter(tmp_path: Path) -> None:
    noise = """
say("WARNING: tensorflow\\n" * 5000)
sys.stderr.write("gpu 0 " * 40000)
say("1/1 [=====>] 3 ms")
"""
    program(tmp_path, noise + GOOD, before='say("starting...\\r")')
    with of_program(tmp_path) as subject:
        for _ in range(3):
            np.testing.assert_allclose(subject.predict(FRAMES), means(FRAMES), atol=1e-5)
        assert subject.failures == Failures()


def test_several_threads_get_their_own_answers_from_one_program(tmp_path: Path) -> None:
    program(tmp_path, WITH_PID)
    levels = range(0, 240, 10)
    with of_program(tmp_path, outputs=("steering", "pid")) as subject, ThreadPoolExecutor(4) as pool:
        answers = np.concatenate(list(pool.map(lambda level: subject.predict(grey(level, level + 5)), levels)))
    expected = np.concatenate([means(grey(level, level + 5)) for level in levels])
    np.testing.assert_allclose(answers[:, :1], expected, atol=1e-5)
    assert len(set(answers[:, 1])) == 1


def test_a_picture_that_kills_the_program_costs_no_other_its_answer(tmp_path: Path) -> None:
    program(tmp_path, WHITE_KILLS + GOOD)
    with of_program(tmp_path) as subject:
        answers = subject.predict(grey(0, 50, 255, 100, 150))
        np.testing.assert_allclose(answers[[0, 1, 3, 4]], means(grey(0, 50, 100, 150)), atol=1e-5)
        assert np.isnan(answers[2, 0])
        assert (subject.failures.pictures, subject.failures.questions) == (1, 3)
        assert subject.failures.last == "ended with exit code 9 instead of answering"
        np.testing.assert_allclose(subject.predict(grey(7)), means(grey(7)), atol=1e-5)


def test_pictures_that_all_kill_the_program_are_counted_while_it_answers_others(tmp_path: Path) -> None:
    program(tmp_path, WHITE_KILLS + GOOD)
    with of_program(tmp_path, restarts=1) as subject:
        for lost in (8, 9, 10):
            assert np.isnan(subject.predict(grey(*[255] * (8 if lost == 8 else 1)))).all()
            assert subject.failures.pictures == lost
        np.testing.assert_allclose(subject.predict(FRAMES), means(FRAMES), atol=1e-5)


def test_a_program_that_dies_now_and_then_is_started_again(tmp_path: Path) -> None:
    program(tmp_path, "if asked % 3 == 0: sys.exit('out of memory')\n" + GOOD)
    with of_program(tmp_path) as subject:
        for _ in range(3):
            np.testing.assert_allclose(subject.predict(FRAMES), means(FRAMES), atol=1e-5)
        assert subject.failures.pictures == 0
        assert subject.failures.questions > 1
        assert subject.failures.last == "ended with exit code 1 instead of answering (its last words: out of memory)"


def test_a_program_that_dies_for_good_ends_the_work(tmp_path: Path) -> None:
    program(tmp_path, before="if os.path.exists('broken'): sys.exit('no GPU\\nno hope')")
    with of_program(tmp_path, restarts=2) as subject:
        (tmp_path / "broken").touch()
        np.testing.assert_allclose(subject.predict(grey(1)), means(grey(1)), atol=1e-5)
        subject.close()
        with pytest.raises(BadSubjectError, match="was asked 3 times in a row without an answer") as caught:
            subject.predict(FRAMES)
    message = str(caught.value)
    assert "serve.py" in message
    assert "at last it ended with exit code 1 instead of answering (its last words: no GPU | no hope)" in message
    assert "run it by hand in the folder" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("before", "body", "message"),
    [
        ("sys.exit(3)", GOOD, "asked 2 times in a row.*ended with exit code 3"),
        ("os.kill(os.getpid(), 9)", GOOD, "was ended by signal 9"),
        ("", "time.sleep(60)", r"had not answered after 0\.3 s|does it read its standard input"),
        ("time.sleep(60)", GOOD, "had taken only .* of the 316"),
        ("os.close(1); time.sleep(60)", GOOD, "closed its input or output but did not end"),
        ("while True: say('y' * 1000)", GOOD, "had taken only"),
        ("while True: say('yes\\n' * 1000)", GOOD, "its last words: yes | yes"),
        ("while True: sys.stderr.write('no\\n')", GOOD, "its last words: no | no"),
    ],
)
def test_a_box_that_never_answers_is_not_waited_for(
    before: str, body: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_module, "_GRACE_S", 0.2)
    program(tmp_path, body, before)
    with pytest.raises(BadSubjectError, match=message.replace("|", r"\|") if "words" in message else message):
        of_program(tmp_path, timeout_s=0.3, restarts=1)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("say('skidpad-answer: hello\\n')", "answered what is not JSON: hello"),
        ("reply(means[1:])", "must answer 2 rows for 2 pictures; got 1 rows"),
        ("reply([[1.0, 2.0]] * count)", r"must answer 1 numbers for each picture.*got \[1.0, 2.0\]"),
        ("reply([['0.5']] * count)", "must answer numbers; got '0.5'"),
        ("reply([[True]] * count)", "must answer numbers; got True"),
        ("reply(means, 77)", "was asked question 1 and answered question 77; repeat the id"),
        ("say('skidpad-answer: [1, 2]\\n')", 'must answer an object {"answers"'),
        ("say('skidpad-answer: ' + '9' * 10**7)", "answered more than the 4224 bytes"),
        ("say('skidpad-answer: ' + '[' * 4000 + '\\n')", "answered what is not JSON"),
    ],
)
def test_garbage_is_told_in_clear_words(body: str, message: str, tmp_path: Path) -> None:
    program(tmp_path, body)
    with pytest.raises(BadSubjectError, match=message) as caught:
        of_program(tmp_path, restarts=0)
    assert "was asked once" in str(caught.value)
    assert len(str(caught.value)) < 800


def test_an_answer_before_the_whole_question_is_out_of_step(tmp_path: Path) -> None:
    (tmp_path / "serve.py").write_text(
        "import json, sys\n"
        "ticket = json.loads(sys.stdin.buffer.readline())['id']\n"
        "print('skidpad-answer:', json.dumps({'id': ticket, 'answers': [0, 0]}), flush=True)\n"
        "sys.stdin.read()\n"
    )
    with pytest.raises(BadSubjectError, match="read the whole question first"):
        of_program(tmp_path, restarts=0)


def test_infinity_is_counted_and_nan_is_the_networks_own_answer(tmp_path: Path) -> None:
    program(tmp_path, "reply([[None if mean < -0.9 else mean * 1e308 * 1e308 if mean > 2.9 else mean, os.getpid()] for mean in means])")
    with of_program(tmp_path, outputs=("steering", "pid")) as subject:
        answers = subject.predict(grey(100, 255, 0, 200))
        assert np.isnan(answers[:, 0]).tolist() == [False, True, True, False]
        assert subject.failures == Failures(1, 0, "answered infinity")
        assert subject.predict(grey(100))[0, 1] == answers[0, 1], "an odd answer is no reason for another program"


def test_a_program_with_a_memory_is_refused(tmp_path: Path) -> None:
    program(tmp_path, "reply([[mean + asked] for mean in means])")
    with pytest.raises(BadSubjectError, match="for the same picture; a box must not remember earlier pictures"):
        of_program(tmp_path)


@pytest.mark.parametrize("command", [("./no-such-program",), ("no-such-program", "x"), ("serve.py",), ("nul\0byte",)])
def test_a_program_that_cannot_be_started_is_told_at_once(command: tuple[str, ...], tmp_path: Path) -> None:
    program(tmp_path)
    with pytest.raises(BadSubjectError, match="write its full path as the first word of command"):
        BoxSubject(described(Box(command=command)), tmp_path)


@pytest.mark.parametrize(
    "apart", [False, pytest.param(True, marks=pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows environments"))]
)
@pytest.mark.parametrize("ending", ["close", "forget", "timeout"])
def test_the_program_and_its_children_end(ending: str, apart: bool, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "alive")
    reader = os.open(tmp_path / "alive", os.O_RDONLY | os.O_NONBLOCK)
    children = f"""
import signal, subprocess
pipe = os.open("alive", os.O_WRONLY)
os.write(pipe, b"!")
subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"], pass_fds=[pipe], start_new_session={apart})
"""
    stubborn = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" if ending == "timeout" else ""
    program(tmp_path, "if max(means) > 2.99: time.sleep(60)\n" + GOOD, children + stubborn)
    try:
        subject = of_program(tmp_path, restarts=0)
        process = subject._box._channel._running._process
        assert os.read(reader, 9) == b"!"
        if ending == "timeout":
            subject._box._channel._timeout_s = 0.3
            with pytest.raises(BadSubjectError, match=r"had not answered after 0\.3 s|had taken only"):
                subject.predict(grey(255))
        elif ending == "close":
            subject.close()
            subject.close()
        del subject
        gc.collect()
        assert process.returncode is not None
        assert select.select([reader], [], [], 10.0)[0], "somebody still holds the pipe"
        assert os.read(reader, 9) == b""
    finally:
        os.close(reader)


def test_a_closed_box_may_be_asked_again(tmp_path: Path) -> None:
    program(tmp_path)
    with of_program(tmp_path) as subject:
        subject.close()
        np.testing.assert_allclose(subject.predict(FRAMES), means(FRAMES), atol=1e-5)


def test_the_hash_follows_the_files_that_are_named_but_not_the_patience(tmp_path: Path) -> None:
    def hashed(*words: str, timeout_s: float = 60.0) -> str:
        with BoxSubject(
            described(Box(command=(sys.executable, "-S", *words), timeout_s=timeout_s, restarts=int(timeout_s))), tmp_path
        ) as box:
            return box.sha256

    program(tmp_path)
    (tmp_path / "weights.bin").write_bytes(b"1")
    first = hashed("serve.py", "weights.bin")
    assert hashed("serve.py", "weights.bin", timeout_s=50.0) == first
    (tmp_path / "weights.bin").write_bytes(b"2")
    other_weights = hashed("serve.py", "weights.bin")
    program(tmp_path, before="pass")
    other_program = hashed("serve.py", "weights.bin")
    assert len({first, other_weights, other_program, hashed("serve.py")}) == 4
