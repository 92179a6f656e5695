"""`skidpad duel`: an adversary in front that learns to make the ego crash, and an ego that learns back."""

from skidpad.kinds.kind import KINDS, CaseColumns, Kind, lazy

KINDS.register("duel")(
    Kind(
        summary="Trains a front vehicle to make an ego crash, tests who crashes against whom, and retrains the ego.",
        command="duel",
        load=lazy(f"{__name__}.campaign:load_duel"),
        page=lazy(f"{__name__}.page:campaign_page"),
        figures=lazy(f"{__name__}.figures:duel_figures"),
        replay=lazy(f"{__name__}.replaying:replay_finding"),
        shrink=lazy(f"{__name__}.shrinking:shrink_duel"),
        exporter=lazy(f"{__name__}.evidence:DuelExporter"),
        exhibit=lazy(f"{__name__}.exhibit:DuelExhibit"),
        traits=lazy(f"{__name__}.traits:duel_cases"),
        columns=CaseColumns(
            key=("family", "column", "training", "test", "seed", "episode"),
            group="column",
            excused=(("avoidable",), lambda row: row["avoidable"] == "never"),
            free=frozenset({"ego", "egos", "train_episodes", "validation_episodes", "keep_episodes", "test_episodes", "test_runs"}),
            free_hashes=frozenset({"ego"}),
        ),
        checks={"duel": lazy(f"{__name__}.evidence:DuelCheck")},
    )
)
