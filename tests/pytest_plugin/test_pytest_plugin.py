"""The plugin as its users meet it: in a pytest run of their own."""

import xml.etree.ElementTree as ET
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from skidpad.core.images import decode
from skidpad.drives.opening import open_drive
from skidpad.stimuli.pictures import TRANSFORMS
from skidpad.subjects.description import pretrained
from skidpad.subjects.loading import load_subject

pytest_plugins = ["pytester"]

IS_INSTALLED = any(each.name == "skidpad" for each in entry_points(group="pytest11"))
PLUGIN = () if IS_INSTALLED else ("-p", "skidpad.pytest_plugin.plugin")
"""An installation from before the entry point loads the plugin by name."""
TOYS = """
import numpy as np

from skidpad.core.units import AngleUnit
from skidpad.core.units import PlainUnit
from skidpad.drives.opening import drive_from_arrays
from skidpad.subjects.description import Description, Format, Output
from skidpad.subjects.inputs import InputSpec

OUTPUTS = (Output("steering", AngleUnit.RAD), Output("throttle", PlainUnit.FRACTION))


class Toy:
    \"\"\"Steers 0.1 rad, and 0.5 where it is light; its throttle is the light.\"\"\"

    description = Description("toy", "toy.pt2", Format.EXPORT, InputSpec(32, 16), OUTPUTS)
    layers, sha256, lead = (), "toy", 0

    def __init__(self, limit):
        self.limit = limit

    def predict(self, clip, now=None):
        light = np.asarray(clip).reshape(len(clip), -1).mean(axis=1)
        return np.stack([np.where(light > self.limit, 0.5, 0.1), light / 255.0], axis=1)


GREY = drive_from_arrays(np.full((5, 16, 32, 3), 100, np.uint8), np.zeros(5))
DAZZLED, MENDED = Toy(150.0), Toy(999.0)
"""


@pytest.fixture(scope="module", autouse=True)
def registries() -> None:
    """Fills them here: what an inner run imports first is forgotten at its end, but not by the registries."""
    import_module("skidpad.pytest_plugin.assertions")
    load_subject(pretrained("pilotnet-rendered"))
    open_drive("rendered?frames=1")
    TRANSFORMS.names()


@pytest.fixture
def tester(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(plugin_toys=TOYS)
    return pytester


def run(pytester: pytest.Pytester, *words: object) -> pytest.RunResult:
    return pytester.runpytest_inprocess(*PLUGIN, "-p", "no:cacheprovider", *map(str, words))


def test_an_assertion_passes_fails_and_shows_the_worst_pair(tester: pytest.Pytester) -> None:
    tester.makepyfile(
        test_user="""
        from plugin_toys import DAZZLED, GREY, MENDED
        from skidpad.pytest_plugin import assert_steers_alike

        def test_mended():
            assert_steers_alike(MENDED, GREY, "brightness", within_deg=5)

        def test_dazzled():
            assert_steers_alike(DAZZLED, GREY, ["blur", "brightness"], within_deg=5)

        def test_some_may_fail():
            assert_steers_alike(DAZZLED, GREY, "brightness", within_deg=5, max_rate=0.5)
        """
    )
    done = run(tester, "--junit-xml", "junit.xml")
    done.assert_outcomes(passed=2, failed=1)
    done.stdout.fnmatch_lines(
        [
            "*blur, brightness: 25 of 100 mutants move steering by 5° or more (25.0*%, 95 % interval*",
            "*worst: brightness(shift=60) on frame 000000: 5.7° left became 28.6° left (22.9° apart)*",
            "*picture: *worst.png",
        ]
    )
    (picture,) = (tester.path / "runs" / "pytest").rglob("*.png")
    assert picture.name == "worst.png"
    assert picture.parent.name.startswith("test_user.py-test_dazzled-")
    assert decode(picture.read_bytes()).shape[1] > 900
    assert str(picture) in done.stdout.str()
    assert (picture.parent / "worst.json").is_file()
    (named,) = ET.parse(tester.path / "junit.xml").iter("property")
    assert (named.attrib["name"], named.attrib["value"]) == ("skidpad_picture", str(picture))
    assert "assertions.py" not in done.stdout.str(), "the traceback ends in the user's test"


def test_stimuli_are_texts_recipes_transforms_and_pairs(tester: pytest.Pytester) -> None:
    tester.makepyfile(
        """
        import pytest
        from plugin_toys import DAZZLED, GREY
        from skidpad.core.errors import SkidpadError
        from skidpad.core.stimuli import Params, Recipe
        from skidpad.pytest_plugin import assert_steers_alike
        from skidpad.pytest_plugin.assertions import recipes_of
        from skidpad.stimuli.pictures.deeptest import Brightness

        SAFE = ["brightness(shift=50)", Recipe.of("brightness", Params(shift=50)), (Brightness(), Params(shift=50))]

        @pytest.mark.parametrize("stimulus", [*SAFE, SAFE, "brightness(shift=50)+blur", "original"])
        def test_below(stimulus):
            assert_steers_alike(DAZZLED, GREY, stimulus, within_deg=5)

        @pytest.mark.parametrize("stimulus", ["brightness(shift=51)", Brightness(), "brightness", (Brightness(), Params(shift=99))])
        def test_above(stimulus):
            with pytest.raises(AssertionError, match="brightness"):
                assert_steers_alike(DAZZLED, GREY, stimulus, within_deg=5)

        def test_grids_go_row_by_row():
            assert len(recipes_of(Brightness())[0]) == 10
            assert len(recipes_of("deeptest-fog+brightness")[0]) == 10
            assert len(recipes_of(["fog", "fog", "brightness(shift=1)"])[0]) == 6

        def test_parameters_that_are_left_out_are_the_usual_ones():
            assert recipes_of("deeptest-fog(density=0.9)")[0] == (Recipe.of("deeptest-fog", Params(density=0.9, seed=0)),)
            assert recipes_of("deeptest-rain(intensity=1)+translation(dx_px=3)")[0][0].to_json() == (
                '[["deeptest-rain",{"intensity":1,"seed":0,"slant_deg":12.0}],["translation",{"dx_px":3,"dy_px":0.0}]]'
            )

        @pytest.mark.parametrize("wrong", ["brightnes", "brightness(shift=1000)", (Brightness(), Params(gain=1.0)), []])
        def test_wrong_names_and_parameters_are_told(wrong):
            with pytest.raises(SkidpadError):
                assert_steers_alike(DAZZLED, GREY, wrong)
        """
    )
    run(tester).assert_outcomes(passed=16)


def test_what_a_user_can_mend_is_one_line_without_a_traceback(tester: pytest.Pytester) -> None:
    tester.makepyfile(
        test_user="""
        import pytest
        from plugin_toys import DAZZLED, GREY
        from skidpad.core.errors import BadDriveError
        from skidpad.pytest_plugin import assert_steers_alike

        @pytest.mark.parametrize("stimulus", ["brightnes", "fog(visibility=90)", "fog(visibility_m=7)", "blur(kind=gaussian)"])
        def test_typo(stimulus):
            assert_steers_alike(DAZZLED, GREY, stimulus)

        def test_signs():
            assert_steers_alike(DAZZLED, GREY, "blur", max_rate=-1)

        def test_drive(skidpad_drive): pass

        def test_own():
            raise BadDriveError("raised by the user's own call")
        """
    )
    done = run(tester, "--skidpad-drive", "nowhere", "--junit-xml", "junit.xml")
    done.assert_outcomes(failed=6, errors=1)
    done.stdout.fnmatch_lines(
        [
            "no folder 'nowhere'*",
            "test_user.py:8: no transform named 'brightnes'; did you mean 'brightness'?",
            "test_user.py:8: no parameter of 'fog' named 'visibility'; did you mean 'visibility_m'?",
            "test_user.py:8: 'fog' takes visibility_m in ?20, 10000?; got visibility_m=7",
            "test_user.py:8: 'blur' needs size in {1..9}; got kind=gaussian",
            "test_user.py:11: max_rate is a share from 0 to 1*",
            ">*raise BadDriveError*",  # whose traceback is the user's
        ]
    )
    said = done.stdout.str()
    assert said.count("assert_steers_alike") == 0, "no source of the tests that were told in one line"
    messages = [failure.attrib["message"] for failure in ET.parse(tester.path / "junit.xml").iter("failure")]
    assert "did you mean 'brightness'?" in messages[0]


def test_other_outputs_in_their_units(tester: pytest.Pytester) -> None:
    tester.makepyfile(
        """
        import pytest
        from plugin_toys import DAZZLED, GREY
        from skidpad.core.errors import SkidpadError
        from skidpad.pytest_plugin import assert_answers_alike, assert_decides_alike, assert_steers_alike

        def test_answers():
            assert_answers_alike(DAZZLED, GREY, "brightness(shift=20)", within=0.1, output="throttle")
            with pytest.raises(AssertionError, match="5 of 5 mutants move throttle by 0.1 or more"):
                assert_answers_alike(DAZZLED, GREY, "brightness(shift=30)", within=0.1, output="throttle")

        def test_decisions():
            assert_decides_alike(DAZZLED, GREY, "brightness(shift=20)", output="throttle")
            with pytest.raises(AssertionError, match="across 0.5"):
                assert_decides_alike(DAZZLED, GREY, "brightness(shift=30)", output="throttle")

        def test_the_wrong_assertion_is_told():
            with pytest.raises(SkidpadError, match="use assert_answers_alike or assert_decides_alike"):
                assert_steers_alike(DAZZLED, GREY, "fog", output="throttle")
            with pytest.raises(SkidpadError, match="use assert_steers_alike"):
                assert_answers_alike(DAZZLED, GREY, "fog", within=0.1, output="steering")
        """
    )
    run(tester).assert_outcomes(passed=3)
    pictures = sorted(path.name for path in (tester.path / "runs" / "pytest").rglob("*.png"))
    assert pictures == ["worst.png", "worst.png"]


def test_nothing_to_judge_fails(tester: pytest.Pytester) -> None:
    tester.makepyfile(
        """
        import numpy as np
        from plugin_toys import GREY, Toy
        from skidpad.pytest_plugin import assert_steers_alike

        class Silent(Toy):
            def predict(self, clip, now=None):
                return np.full((len(clip), 2), np.nan)

        def test_silent():
            assert_steers_alike(Silent(0), GREY, "fog")
        """
    )
    done = run(tester)
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*nothing can be judged: 'toy' has no finite steering*"])


def test_a_test_goes_through_the_stimuli_of_its_marker_or_all_transforms(tester: pytest.Pytester) -> None:
    tester.makepyfile(
        """
        import pytest
        from plugin_toys import DAZZLED, GREY
        from skidpad.pytest_plugin import assert_steers_alike

        @pytest.mark.skidpad_stimuli("blur", "brightness(shift=60)")
        def test_named(skidpad_stimulus):
            assert_steers_alike(DAZZLED, GREY, skidpad_stimulus, within_deg=5)

        def test_all(skidpad_stimulus):
            assert isinstance(skidpad_stimulus, str)
        """
    )
    done = run(tester, "-v", "--strict-markers")
    done.assert_outcomes(passed=10, failed=1)
    done.stdout.fnmatch_lines(["*test_named?brightness(shift=60)? FAILED*", "*test_all?deeptest-fog? PASSED*"])


def test_subject_and_drive_are_named_once_and_loaded_once(tester: pytest.Pytester, tmp_path: Path) -> None:
    tester.makepyfile(
        """
        SEEN = []

        def test_first(skidpad_subject, skidpad_drive):
            SEEN.append((skidpad_subject, skidpad_drive))
            assert skidpad_subject.description.steering_column == 0
            assert len(skidpad_drive) == 3

        def test_second(skidpad_subject, skidpad_drive):
            assert SEEN == [(skidpad_subject, skidpad_drive)]
        """
    )
    subject = pretrained("pilotnet-rendered")
    run(tester, "--skidpad-subject", subject, "--skidpad-drive", "rendered?frames=3").assert_outcomes(passed=2)
    tester.makeini(f"[pytest]\nskidpad_subject = {subject}\nskidpad_drive = rendered?frames=3\n")
    run(tester).assert_outcomes(passed=2)


@pytest.mark.usefixtures("untrusting")
def test_the_code_of_a_subject_runs_only_where_it_is_trusted(
    tester: pytest.Pytester, write_driver: Callable[[Path, str, float], Path]
) -> None:
    toml = write_driver(tester.path, "trusted-box", 0.6)
    tester.makepyfile("def test_it(skidpad_subject): assert skidpad_subject.layers == ()")
    options = (*PLUGIN, "--skidpad-subject", str(toml))
    tester.runpytest(*options).stdout.fnmatch_lines(["*would import the Python code 'trusted_box_driver:drive'*--trust*"])
    tester.runpytest(*options, "--skidpad-trust").assert_outcomes(passed=1)


def test_a_missing_name_is_told_with_the_ways_to_give_it(tester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SKIDPAD_DRIVE", raising=False)
    tester.makepyfile("def test_it(skidpad_drive): pass")
    done = run(tester)
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(["*no drive is named; give --skidpad-drive, set SKIDPAD_DRIVE*"])
    monkeypatch.setenv("SKIDPAD_DRIVE", "rendered?frames=2")
    run(tester).assert_outcomes(passed=1)


def test_the_folder_of_pictures_can_be_chosen_and_old_pictures_go(tester: pytest.Pytester) -> None:
    tester.makepyfile(
        """
        from plugin_toys import DAZZLED, GREY
        from skidpad.pytest_plugin import assert_steers_alike

        def test_twice():
            for _ in range(2):
                try:
                    assert_steers_alike(DAZZLED, GREY, "brightness", within_deg=5)
                except AssertionError:
                    pass
        """
    )
    for _ in range(2):
        run(tester, "--skidpad-runs", "kept/here").assert_outcomes(passed=1)
    assert sorted(path.name for path in (tester.path / "kept" / "here").rglob("*.png")) == ["worst-2.png", "worst.png"]


def test_outside_of_pytest_the_assertions_work_as_well(tester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    from skidpad import pytest_plugin
    from skidpad.pytest_plugin import assert_steers_alike

    monkeypatch.setattr(pytest_plugin, "_RUNNING", [])
    monkeypatch.syspath_prepend(tester.path)
    toys = import_module("plugin_toys")
    with pytest.raises(AssertionError, match=r"25 of 50 mutants(.|\n)*picture: runs/pytest/no-test/worst.png"):
        assert_steers_alike(toys.DAZZLED, toys.GREY, "brightness", within_deg=5)
    assert (tester.path / "runs/pytest/no-test/worst.png").is_file()


def test_loading_the_plugin_imports_nothing_heavy(tester: pytest.Pytester) -> None:
    tester.makepyfile(
        """
        import sys

        def test_light():
            heavy = {"torch", "numpy", "cv2", "pyarrow", "numba", "scipy"} & set(sys.modules)
            assert not heavy
            assert "skidpad.pytest_plugin.plugin" in sys.modules
        """
    )
    (tester.path / "plugin_toys.py").unlink()
    done = tester.runpytest_subprocess(*PLUGIN, "-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    done.assert_outcomes(passed=1)


def test_a_constant_network_does_not_pass_unless_that_is_accepted(tester: pytest.Pytester) -> None:
    tester.makepyfile(
        test_user="""
        import numpy as np
        from plugin_toys import DAZZLED, MENDED
        from skidpad.drives.opening import drive_from_arrays
        from skidpad.pytest_plugin import assert_steers_alike

        BENDS = drive_from_arrays(np.full((8, 16, 32, 3), 100, np.uint8), np.linspace(-0.3, 0.3, 8))

        def test_still():
            assert_steers_alike(MENDED, BENDS, "brightness(shift=60)")

        def test_accepted():
            assert_steers_alike(MENDED, BENDS, "brightness(shift=60)", accept_doubts=True)

        def test_broken_as_well():
            assert_steers_alike(DAZZLED, BENDS, "brightness(shift=60)")
        """
    )
    result = run(tester)
    result.assert_outcomes(passed=1, failed=2)
    said = result.stdout.str()
    assert "AssertionError: in doubt: The network answers the same on every frame" in said
    assert "0 of 8 mutants break the relation, which says nothing then" in said
    assert "brightness: 8 of 8 mutants move steering by 10° or more" in said


def test_a_moved_camera_is_held_against_the_moved_truth(pytester: pytest.Pytester) -> None:
    """Turned by two degrees, the right answer moves by about ten: who follows passes, who answers as before does not."""
    pytester.makepyfile(
        TOYS
        + """
import pytest
import skidpad as sp
from skidpad.core.stimuli import Params
from skidpad.pytest_plugin import assert_steers_alike

TURNED = sp.CameraYaw(yaw_deg=2)
RIGHT = float(TURNED.moved_rad(np.array([0.1]), Params(yaw_deg=2.0))[0])


class Follows(Toy):
    def __init__(self):
        super().__init__(999.0)
        self.asked = 0

    def predict(self, clip, now=None):
        # asked first about the frames as they are, then about the turned ones, then about those cut alike
        self.asked += 1
        return np.full((len(clip), 2), RIGHT if self.asked == 2 else 0.1)


def test_turned():
    assert abs(RIGHT - 0.1) > np.radians(5)
    assert_steers_alike(Follows(), GREY, TURNED, within_deg=1, accept_doubts=True)
    with pytest.raises(AssertionError, match="camera-yaw"):
        assert_steers_alike(MENDED, GREY, TURNED, within_deg=1, accept_doubts=True)
"""
    )
    pytester.runpytest_inprocess(*PLUGIN, "-p", "no:cacheprovider").assert_outcomes(passed=1)
