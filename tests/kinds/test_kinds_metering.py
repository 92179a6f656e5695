"""One progress for all phases."""

from skidpad.kinds.shards import Meter


def test_a_meter_adds_up_what_all_items_tell() -> None:
    seen = []
    meter = Meter(lambda done, total, note="": seen.append((done, total, note)), 30)
    meter.begin("training", 10)
    heard = meter.heard([10, 10])
    heard(0, 0.5, "half")
    heard(1, 0.25, "")
    heard(0, 1.0, "")
    heard(1, 1.0, "")
    assert [done for done, _, _ in seen] == [10, 15, 18, 22, 30]
    assert {total for _, total, _ in seen} == {30}
    assert seen[1][2] == "training: half"


def test_an_item_that_begins_again_takes_back_what_it_told() -> None:
    seen = []
    meter = Meter(lambda done, total, note="": seen.append(done), 8)
    meter.begin("driving", 0)
    heard = meter.heard([8])
    for share in (0.5, 0.0, 1.0):
        heard(0, share, "")
    assert seen == [0, 4, 0, 8]
