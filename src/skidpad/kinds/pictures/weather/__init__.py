"""Recorded frames under learned weather: `skidpad weather test` (DeepRoad)."""

from skidpad.kinds.kind import KINDS, CaseColumns, Kind, lazy

KINDS.register("deeproad")(
    Kind(
        summary="Tests a network on a drive under learned weathers, counted at several error bounds.",
        command="weather test",
        load=lazy(f"{__name__}.campaign:from_config"),
        page=lazy(f"{__name__}.page:deeproad_page"),
        figures=lazy(f"{__name__}.page:deeproad_figures"),
        replay=lazy("skidpad.kinds.pictures.evidence:replay_finding"),
        shrink=lazy("skidpad.kinds.pictures.shrinking:shrink_recipe"),
        exporter=lazy("skidpad.kinds.pictures.evidence:PictureExporter"),
        exhibit=lazy("skidpad.kinds.pictures.exhibit:DeepRoadExhibit"),
        columns=CaseColumns(group="stimulus", cluster="frame_id"),
    )
)
