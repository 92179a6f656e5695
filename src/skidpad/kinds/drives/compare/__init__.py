"""The same scenarios offline and online: `skidpad compare`."""

from skidpad.kinds.drives import DRIVE_COLUMNS
from skidpad.kinds.kind import KINDS, Kind, lazy

KINDS.register("compare")(
    Kind(
        summary="Tests a network offline and online on the same scenarios, and simulated against recorded drives.",
        load=lazy(f"{__name__}.campaign:load_comparing"),
        presenter=lazy(f"{__name__}.presenter:ComparingPresenter"),
        shrink=lazy("skidpad.kinds.drives.shrinking:shrink_drive"),
        exporter=lazy("skidpad.kinds.drives.evidence:DriveExporter"),
        exhibit=lazy("skidpad.kinds.drives.exhibit:ComparingExhibit"),
        columns=DRIVE_COLUMNS,
    )
)
