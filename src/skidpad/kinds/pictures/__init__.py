"""Recorded frames under stimuli, judged by a relation: `skidpad test` (DeepTest)."""

from skidpad.kinds.kind import KINDS, CaseColumns, Kind, lazy

KINDS.register("deeptest")(
    Kind(
        summary="Tests a network on a drive under transformations, judged by a metamorphic relation.",
        command="test",
        load=lazy(f"{__name__}.campaign:from_config"),
        page=lazy(f"{__name__}.page:deeptest_page"),
        figures=lazy(f"{__name__}.page:deeptest_figures"),
        replay=lazy(f"{__name__}.evidence:replay_finding"),
        shrink=lazy(f"{__name__}.shrinking:shrink_recipe"),
        exporter=lazy(f"{__name__}.evidence:PictureExporter"),
        exhibit=lazy(f"{__name__}.exhibit:DeepTestExhibit"),
        traits=lazy(f"{__name__}.summary:picture_cases"),
        columns=CaseColumns(
            group="stimulus",
            cluster="frame_id",
            free=frozenset({"transforms", "preset", "searches", "seeds", "max_failed_tries", "criteria", "profile_drive"}),
        ),
        checks={"pictures": lazy("skidpad.kinds.pictures.evidence:PictureCheck")},
    )
)
