"""Observations as a policy sees them: through filters with statistics of what was recorded, or of a trained policy."""

from __future__ import annotations

from collections.abc import Mapping

from rlcore.batch import LAST_OBS, OBS, SampleBatch
from rlcore.columns import column_name
from rlcore.sampling.filters import ObservationFilter


def observe(filters: Mapping[str, ObservationFilter], batch: SampleBatch) -> None:
    """Adds the observations of a batch to the statistics of the filters, by leaf."""
    for leaf, one in filters.items():
        one.observe(batch[column_name(OBS, leaf)])
        one.apply(one.take_delta())


def filtered(filters: Mapping[str, ObservationFilter], batch: SampleBatch) -> SampleBatch:
    """The batch as a policy with these filters sees it; statistics stay as they are."""
    rows, cuts = {}, {}
    for leaf, one in filters.items():
        name, last = column_name(OBS, leaf), column_name(LAST_OBS, leaf)
        rows[name], cuts[last] = one.normalise(batch[name]), one.normalise(batch.cuts[last])
    return batch.with_rows(**rows).with_cuts(**cuts)
