"""Which finding of a run is the worst: one that the stimulus caused, where there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from skidpad.oracles.relations import LabelMse, fails_unchanged
from skidpad.runs.records import ORIGINALS, findings_of, holds_pictures, no_rows, worst_first

if TYPE_CHECKING:
    from skidpad.runs.folder import Run


_NEEDED = ("case_id", "original", "label", "excess", "violated")


def worst_finding(run: Run) -> str | None:
    """Returns the case id of the worst finding, None where there is none.

    Under `label-mse` a frame may fail before anything is changed. Such a finding tells nothing of the stimulus and shrinks to nothing,
    so it is the worst only where all are of that kind.
    """
    relation = label_relation(run)
    if relation is None:
        found = run.findings(limit=1, columns=("case_id",))
    else:
        found = no_rows(run.schema, _NEEDED)
        for table in run.iter_records(None, _NEEDED):
            found = caused_first(pa.concat_tables([found, findings_of(table)]), relation, 1)
    return str(found["case_id"][0].as_py()) if found.num_rows else None


def caused_first(records: pa.Table, relation: LabelMse | None, limit: int | None = None) -> pa.Table:
    """Sorts findings by excess, those whose original fails by itself behind all others; then keeps the first `limit` rows."""
    if relation is None:
        return worst_first(records, limit)
    already = fails_unchanged(relation, records["original"].to_numpy(), records["label"].to_numpy())
    order = np.lexsort((-records["excess"].to_numpy(), already))
    return records.take(pa.array(order if limit is None else order[:limit]))


def label_relation(run: Run) -> LabelMse | None:
    """Returns the relation of a run that was judged against labels; None of any other, under which no original fails by itself."""
    lambda_ = run.config.get("tolerance")
    if not holds_pictures(run.schema) or run.config.get("relation") != LabelMse.name or not isinstance(lambda_, int | float):
        return None
    originals = run.records(ORIGINALS, ("original", "label"))
    error = originals["original"].to_numpy() - originals["label"].to_numpy()
    finite = error[np.isfinite(error)]
    return LabelMse(lambda_=lambda_, mse_original_rad2=float(np.mean(finite**2))) if len(finite) else None
