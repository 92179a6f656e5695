"""Content codes are encoded once, and are the same in memory and in a file."""

from pathlib import Path

import pytest
import torch
from weather_toys import pictures, toy_card, toy_weights

from skidpad.core.errors import SkidpadError
from skidpad.stimuli.weather.contents import Contents
from skidpad.stimuli.weather.decoding import FoldedDecoder
from skidpad.stimuli.weather.translation import Weather, model_of


def loaded() -> tuple[Weather, FoldedDecoder]:
    weather = Weather(toy_card(), toy_weights())
    return weather, weather.decoder


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_file_gives_what_memory_gives(tmp_path: Path, dtype: torch.dtype) -> None:
    weather, decoder = loaded()
    decoder = FoldedDecoder(weather.card, model_of(weather.card, toy_weights()), dtype=dtype)
    frames = pictures(7, 40, 60)
    resident = Contents(weather, decoder, 7, (40, 60))
    mapped = Contents(weather, decoder, 7, (40, 60), tmp_path / "deep" / "codes.bin", memory_bytes=0)
    assert (resident.is_mapped, mapped.is_mapped) == (False, True)
    for contents in (resident, mapped):
        contents.add(frames[:4])
        contents.add(frames[4:])
        assert len(contents) == 7
    for rows in (slice(0, 7), slice(2, 5), slice(6, 7)):
        kept, read = resident.part(rows), mapped.part(rows)
        assert torch.equal(kept.content, read.content)
        torch.testing.assert_close(kept.first.float(), read.first.float(), rtol=1e-2, atol=1e-2 if dtype is torch.bfloat16 else 1e-5)
    mapped.close()
    assert not (tmp_path / "deep" / "codes.bin").exists()


def test_what_is_kept_decodes_to_the_translated_frames() -> None:
    weather, decoder = loaded()
    frames = pictures(3)
    contents = Contents(weather, decoder, 3, (32, 40))
    contents.add(frames)
    style = torch.tensor([0.5, -1.0, 0.2])
    made = decoder.decode(contents.part(slice(0, 3)), decoder.norms(style[None]))
    assert int((made.int() - torch.from_numpy(weather.translate(frames, style)).int()).abs().max()) <= 1


def test_no_room_and_too_many_frames_are_said() -> None:
    weather, decoder = loaded()
    with pytest.raises(SkidpadError, match="use fewer scenes"):
        Contents(weather, decoder, 1000, (32, 40), memory_bytes=1000)
    contents = Contents(weather, decoder, 2, (32, 40))
    with pytest.raises(ValueError, match="room for 2 frames; got 3"):
        contents.add(pictures(3))
