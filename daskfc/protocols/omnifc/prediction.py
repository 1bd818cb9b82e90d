"""OmniFC for new samples: coded distances from them to the clustered ones, then the clusterer."""

from collections.abc import Mapping

import xarray as xr

from daskfc.clustering import Clusterer
from daskfc.federation import Local
from daskfc.federation.estimator import labels_array
from daskfc.protocols.omnifc import clusters
from daskfc.secure.distances import party
from daskfc.secure.distances.wiring import CodedSamples, encode_all, stream_new

__all__ = ["predict_new"]

PANEL_ENTRIES = 1 << 23  # ours: distances of a panel of new samples in memory, 64 MB


def predict_new(
    samples: CodedSamples, clustering: Local, clusterer: Clusterer, stores: Mapping[str, str]
) -> xr.DataArray:
    """Wire the prediction; see `OmniFC.predict`."""
    federation = samples.federation
    if samples.coded is None:  # every block was there already when the model was fitted
        samples = encode_all(samples)
    owners = [name for name in federation.clients if name in stores]
    counts = {name: _count(samples, name, stores[name]) for name in owners}
    width = max(1, min(2048, PANEL_ENTRIES // samples.n_samples))
    panels = [
        (name, start, min(start + width, counts[name]))
        for name in owners
        for start in range(0, counts[name], width)
    ]
    labels = [
        federation.on_server(
            clusters.predict_panel,
            clustering,
            _distances(samples, panel, stores[panel[0]]),
            clusterer=clusterer,
        )
        for panel in panels
    ]
    told = federation.tell(clusters.new_labels, labels, clients=owners, counts=counts)
    return labels_array(
        {
            name: federation.publish(party.labelled_new, told, party=name, url=stores[name])
            for name in owners
        }
    )


def _count(samples: CodedSamples, client: str, url: str) -> int:
    message = samples.federation.publish(party.describe_new, party=client, url=url)
    return message.n_samples


def _distances(samples: CodedSamples, panel: tuple[str, int, int], url: str) -> list[Local]:
    """Return the server's distances of clustered samples to one panel of new ones."""
    owner, start, stop = panel
    shared = samples.federation.exchange(
        party.encode_new,
        clients=[owner],
        receivers=samples.evaluators,
        url=url,
        start=start,
        stop=stop,
        code=samples.code,
        system=samples.system,
        evaluators=samples.evaluators,
    )
    return stream_new(samples, shared, owner, f"{owner}:{start}:{stop}:{url}")
