"""`SecureDistances`: squared distances, at the server, of rows that stay at the clients.

Clients share out their rows by Lagrange coding (OmniFC, Protocol 1), some of them evaluate
distances of shares, and the server interpolates.
"""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, Self

from daskfc.arrays import Floats
from daskfc.clustering import Clusterer, ExactPoints
from daskfc.coding import LagrangeCode, ResidueSystem, choose_residues
from daskfc.federation import Federation, Local, PerClient
from daskfc.linalg import LandmarkEmbedding
from daskfc.pairwise import SymmetricGrid
from daskfc.secure.distances.parties import party, server
from daskfc.secure.distances.parties.messages import NewSamples
from daskfc.secure.distances.parties.server import RowPlan, Tiles
from daskfc.secure.distances.routes import columns as exact
from daskfc.secure.distances.routes import grids, rows
from daskfc.secure.distances.routes.blocks import compute_blocks
from daskfc.secure.distances.routes.evaluation import Evaluation
from daskfc.secure.distances.routes.last_fit import SinceLast
from daskfc.secure.distances.routes.new_panels import NewPanel, new_panels, panels_of_columns
from daskfc.secure.distances.routes.search import LandmarkSearch
from daskfc.secure.distances.sizing.memory import NOBODY, Reader
from daskfc.secure.distances.sizing.sizing import COLUMN_ROWS, Sizing
from daskfc.stores import ClientStore

_ANY = 0.5  # tolerance of a grid that is chosen by the distance that it resolves


class SecureDistances:
    """Squared distances, at the server, of rows that stay at the clients.

    Create it with `of_samples` or `of_rows`. Rows are encoded at the first request for distances.

    Parameters
    ----------
    federation : Federation
        The parties, in a run.
    code : LagrangeCode
        See `choose_code`; the first clients are its evaluators.
    system : ResidueSystem
        Primes and scale.
    place : Place
        Order and range of the rows.
    own : PerClient of Local, optional
        `QuantisedRows` at the clients; by default the rows are those of their stores.
    since : SinceLast, optional
        What the server kept of the last fit; columns are kept for the next one then.
    hide_segments : bool
        Add a shared random polynomial that keeps distances of single segments from the server.
    engine : {"auto", "int8", "f32", "f64"}
        Kernel of the modular products; all give identical distances.
    tile : int, optional
        Rows of a block; by default the largest that every party's memory holds with ease.

    Attributes
    ----------
    n_samples, n_features, sizing, gaps
        Number of rows of all clients, their length, the memory and disk that they need, and a
        `GapReport` where samples lack columns.
    route, reason : str
        How `all_pairs` made its distances, "columns" or "blocks", and why; empty before.

    Notes
    -----
    Privacy: to any `n_colluding` clients that pool what they see, the others' rows look like
    uniformly random numbers. The server gets the distances that it keeps; all of them give the rows
    up to a rigid motion. A client that reveals the hiding key to it also reveals distances of
    segments of rows.

    Error: rows on a grid give exact distances. Others are rounded to a grid on which the root mean
    square error of a squared distance, relative to their mean, is the tolerance, or a finer one.

    Cost: for n rows of length d, with l segments, r primes of b bytes and K evaluators, clients
    send (K - t) r b n d / l bytes of shares, and evaluators K times r b bytes a distance or less.

    References
    ----------
    OmniFC, Protocol 1 and Eqs. 1 to 6; FedSC, Appendix C.

    Examples
    --------
    >>> from daskfc.secure.distances import SecureDistances, choose_code
    >>> def all_distances(federation):
    ...     code = choose_code(len(federation.clients), None, None, None)
    ...     return SecureDistances.of_samples(federation, code, tolerance=1e-4).blocks("full")
    """

    def __init__(
        self,
        federation: Federation,
        code: LagrangeCode,
        system: ResidueSystem,
        place: grids.Place,
        *,
        own: PerClient[Local] | None = None,
        since: SinceLast | None = None,
        hide_segments: bool = True,
        engine: str = "auto",
        tile: int | None = None,
    ) -> None:
        self.federation = federation
        self.code, self.system, self.plan = code, system, place.plan
        self.n_samples = place.public.n_samples
        self.n_features = place.public.n_features
        self.own, self.since, self.gaps = own, since, place.gaps
        self._place = place
        self._options: dict[str, Any] = {
            "hide_segments": hide_segments, "engine": engine, "tile": tile
        }  # fmt: skip
        self.route, self.reason = "", ""
        self._evaluation = Evaluation(
            federation, code, system, engine=engine, gaps=bool(self.gaps),
            hide_segments=hide_segments and code.n_segments > 1,  # one has nothing to hide
        )  # fmt: skip
        self.sizing = Sizing(
            federation, code, system, self.n_samples, self.n_features, self._evaluation.names, tile,
            keeps=since is not None, in_parts=bool(self.gaps),
        )  # fmt: skip

    @classmethod
    def of_samples(
        cls,
        federation: Federation,
        code: LagrangeCode,
        *,
        tolerance: float,
        max_abs: float | None = None,
        resolve: float | None = None,
        held: grids.Held | None = None,
        since_last: bool = False,
        **options: Any,
    ) -> Self:
        """Create the distances of the samples in the clients' stores.

        Parameters
        ----------
        federation, code
            As for the class.
        tolerance : float
            Root mean square error of squared distances, relative to their mean. Data on a grid
            (integers, pixels / 255) have no error at all.
        max_abs : float, optional
            Declared bound on every ``|x|``; without it each client reports its largest norm,
            rounded up.
        resolve : float, optional
            A squared distance that is exact to a thousandth; by default a hundredth of an estimate
            of the mean.
        held : Held, optional
            Where clients hold columns, who holds which.
        since_last : bool
            Whether to go on from what the server kept of the last fit like this one, where samples
            and grid are the same, and to keep this fit's distances for the next.
        **options
            hide_segments, engine and tile, as for the class.

        Raises
        ------
        InvalidInput
            When features are not finite, or clients share sample ids.
        OverflowRefused
            When a value exceeds `max_abs`, or no primes are enough.

        Notes
        -----
        Samples much farther from the origin than apart are centred on their mean, which all then
        learn, rounded; a client's columns on one that nobody learns.
        """
        place = grids.place_of_samples(federation, code, max_abs, held)
        since = SinceLast.asked(federation, place) if since_last else None
        if since is not None and since.holds and since.found.resolved:
            resolve = since.resolved = since.found.resolved
            tolerance = _ANY
        system = grids.choose_grid(federation, code, place, tolerance=tolerance, resolve=resolve)
        return cls(federation, code, system, place, since=since, **options)

    def finer(self, resolve: float) -> Self:
        """Create the same distances on a finer grid, which resolves a given squared distance.

        Parameters
        ----------
        resolve : float
            As for `of_samples`.

        Raises
        ------
        OverflowRefused
            As `of_samples`.
        """
        place = self._place
        system = grids.choose_grid(
            self.federation, self.code, place, tolerance=_ANY, resolve=resolve
        )
        since = None if self.since is None else self.since.finer(resolve)
        return type(self)(self.federation, self.code, system, place, since=since, **self._options)

    @classmethod
    def of_rows(
        cls,
        federation: Federation,
        code: LagrangeCode,
        own: PerClient[Local],
        positions: Local,
        *,
        tolerance: float,
        radius: float | None,
        **options: Any,
    ) -> Self:
        """Create the distances of rows computed at the clients.

        Parameters
        ----------
        federation, code
            As for the class.
        own : PerClient of Local
            (n, d) float64 or `daskfc.privacy.Noised` at each client, with the same d at all.
        positions : Local
            The server's `canonical_positions` of these rows.
        tolerance : float
            Root mean square error of a squared distance, relative to the squared radius.
        radius : float or None
            Public bound on the norm of a row. With None each client reports its largest norm,
            rounded up.
        **options
            hide_segments, engine and tile, as for the class.

        Raises
        ------
        InvalidInput
            When rows have different lengths, or are not as many as the positions.
        """
        summaries = federation.ask(rows.summarise_rows, own, radius=radius)
        plan = federation.on_server(rows.plan_rows, summaries, positions)
        public = federation.publish(server.public_plan, plan)
        system = choose_residues(
            radius=public.radius,
            n_features=public.n_features,
            tolerance=tolerance,
            grids=0,
            n_columns=code.n_columns(public.n_features),
            n_points=code.n_points,
            mean_square=public.radius**2 or None,
        )
        kept = federation.on_clients(rows.quantised_rows, own, system=system, purpose="clustered")
        return cls(federation, code, system, grids.Place(plan, public), own=kept, **options)

    @property
    def dropped(self) -> dict[str, str]:
        """Evaluators that were excluded, and why."""
        return self._evaluation.dropped

    def nearest_apart(self) -> float:
        """Return a small squared distance between different samples of one client."""
        return grids.nearest_apart(self.federation, self._place)

    def squared_lengths(self, clusterer: Clusterer) -> Local[Floats]:
        """Return each row's squared length over the columns of all clients, for `clusterer`."""
        return grids.squared_lengths(self.federation, self.code, self._place, clusterer)

    def refuse_far_samples(self, why: str) -> None:
        """Have clients refuse samples that lie too far from the others, naming columns.

        Raises
        ------
        OverflowRefused
            By the client with the farthest samples.
        """
        grids.refuse_far_samples(self.federation, self._place, why)

    def error_of(self, squared: float) -> float:
        """Return the error that the grid may leave in a squared distance of that size."""
        return self._place.error_of(squared, self.system)

    def blocks(
        self,
        keep: str,
        *,
        n_neighbors: int | None = None,
        radius2: float | None = None,
        reader: Reader = NOBODY,
    ) -> Local[Tiles]:
        """Compute all blocks of distances that the server does not hold yet.

        Parameters
        ----------
        keep : {"full", "neighbours", "radius"}
            What the server keeps: all distances, or one of two graphs.
        n_neighbors, radius2 : int, float, optional
            For the graphs: neighbours of each row, or the squared radius.
        reader : Reader
            The clusterer that reads all distances, where the server keeps them.

        Returns
        -------
        Local
            At the server: `DistanceTiles`, `NeighbourTiles` or `RadiusTiles`, complete.

        Raises
        ------
        ResourceRefused
            When a party's memory or the server's disk cannot hold it; before anything is encoded.
        """
        federation, evaluation = self.federation, self._evaluation
        tile = self.sizing.tile(keep, n_neighbors, reader)
        grid = SymmetricGrid(self.n_samples, tile)
        kept = f"{keep}-{n_neighbors}-{radius2}-{tile}-{self.system.primes}-{self.system.scale!r}"
        name = f"{self._place.public.problem:016x}-{hashlib.sha256(kept.encode()).hexdigest()[:12]}"
        tiles = federation.on_server(
            server.open_tiles, name=name, grid=grid, n_neighbors=n_neighbors, radius2=radius2
        )
        missing = federation.publish(server.missing_blocks, tiles).blocks
        # in squares of 4 x 4 blocks, so that an evaluator prepares a panel for several of them
        blocks = sorted(map(tuple, missing.tolist()), key=lambda b: (b[0] // 4, b[1] // 4, b))
        if not blocks:
            return tiles
        self._encode()
        decoders = self.sizing.decoders(tile, keep, n_neighbors, reader)
        kinds: dict[str, Any] = {"n_neighbors": n_neighbors, "radius2": radius2}
        kinds["plan"] = None if self.gaps is None else self.plan
        compute_blocks(federation, evaluation, tiles, blocks, grid=grid, decoders=decoders, **kinds)
        return tiles

    def all_pairs(
        self,
        keep: str,
        *,
        n_neighbors: int | None = None,
        radius2: float | None = None,
        reader: Reader = NOBODY,
    ) -> Local[ExactPoints] | Local[Tiles]:
        """Compute all distances exactly, from columns or in blocks, whichever is cheaper.

        Distances are whole numbers over S² and have rank d + 2 at most: a few columns give
        coordinates, from which every distance follows by rounding, or by residues where the error
        bound of the coordinates is too large. Blocks are computed where n <= 2 (d + 2), where
        columns need too much memory, or where neither rounding nor residues are certain: distances
        too large to round, of samples that span less than d dimensions. See `route` and `reason`.

        Parameters
        ----------
        keep, n_neighbors, radius2, reader
            As for `blocks`.

        Returns
        -------
        Local
            At the server: `ExactPoints`, certified, or the result of `blocks`. Distances, and
            graphs of them, are the same to the last bit.

        Raises
        ------
        ResourceRefused
            When a party's memory or the server's disk can hold neither; before anything is encoded.

        Notes
        -----
        Privacy: the server learns the same either way. With columns the evaluators also learn which
        samples are landmarks: those far from the others.
        """
        self.route, self.reason = self.sizing.cheaper(keep, n_neighbors, reader)
        if self.route == "columns":
            start = self.federation.on_server(exact.start_search, self.plan, system=self.system)
            search, embedding = self._searched(start, keeps=True)
            points, status = search.points(embedding)
            self.reason = exact.in_words(status, asked=search.asked, n=self.n_samples)
            if status.certified:
                if self.since is not None:
                    self.since.keep(search.kept)
                return points
            self.route = "blocks"
        return self.blocks(keep, n_neighbors=n_neighbors, radius2=radius2, reader=reader)

    def columns(
        self,
        tolerance: float,
        nearest: float = 0.0,
        *,
        keep: str = "rows",
        n_neighbors: int | None = None,
        reader: Reader = NOBODY,
    ) -> Local[LandmarkEmbedding]:
        """Compute the columns of landmarks, round by round, until they span all rows.

        Parameters
        ----------
        tolerance : float
            Largest squared distance to the landmarks' span, relative to the mean squared distance.
        nearest : float
            The same in squared units of the data; the larger one counts.
        keep, n_neighbors, reader
            The use of the coordinates: "rows", or as for `blocks`.

        Returns
        -------
        Local
            At the server: the `LandmarkEmbedding`, converged.

        Raises
        ------
        ResourceRefused
            When a party's memory cannot hold it; before anything is encoded.
        """
        self.sizing.check_columns(keep, n_neighbors, reader)
        embedding = self.federation.on_server(
            server.start_landmarks, self.plan, tolerance=tolerance, nearest=nearest
        )
        search, embedding = self._searched(embedding, keeps=self.since is not None)
        if self.since is not None:
            self.since.keep(search.kept)
        return embedding

    def _searched(
        self, embedding: Local[LandmarkEmbedding], *, keeps: bool
    ) -> tuple[LandmarkSearch, Local[LandmarkEmbedding]]:
        """Return the search for landmarks, and its embedding, once it is over."""
        search = LandmarkSearch(
            self.federation,
            self.plan,
            self._evaluation,
            self.n_samples,
            self.n_features,
            self._encode,
            self.sizing.landmarks,
            COLUMN_ROWS,
            keeps=keeps,
            since=self.since,
        )
        return search, search.run(embedding)

    def to_new_samples(
        self, new: PerClient[Local[ClientStore]]
    ) -> tuple[Local[RowPlan] | None, Iterator[NewPanel]]:
        """Compute the distances of all rows to the samples of other stores, panel by panel.

        Parameters
        ----------
        new : PerClient of Local
            Open stores at some clients; at all of the same samples, where these hold columns.

        Returns
        -------
        Local or None
            At the server: the order of the new samples, where clients hold columns.
        iterator of NewPanel
            In that order, or that of `new`; the columns are dropped with it.

        Raises
        ------
        InvalidInput, OverflowRefused
            As `of_samples`; and for new samples farther out than the range of those of fit.
        """
        if self._place.of_columns is None:
            self._encode()
            return None, self._panels(party.describe_new, new, *self._place.encoding, new)
        place = grids.place_of_new_columns(self.federation, self._place, new)
        self._encode()
        coded = self._evaluation.assembled(place.public, place.plan, *place.encoding, new)
        n_new = place.public.n_samples
        return place.plan, panels_of_columns(self._evaluation, self.n_samples, coded, n_new)

    def quantised(self, own: PerClient[Local]) -> PerClient[Local]:
        """Round new rows at some clients to the grid of the clustered ones, for `to_new_rows`."""
        return self.federation.on_clients(
            rows.quantised_rows, own, system=self.system, purpose="new", clients=tuple(own)
        )

    def to_new_rows(self, own: PerClient[Local]) -> Iterator[NewPanel]:
        """Compute the distances of all rows to `quantised` new ones, panel by panel.

        Parameters
        ----------
        own : PerClient of Local
            Of some clients.

        Yields
        ------
        NewPanel
            In the order of the clients; the columns are dropped with it.
        """
        self._encode()
        return self._panels(rows.count_rows, own, rows.encode_quantised, own)

    def _panels(
        self, count: Callable[..., NewSamples], new: PerClient[Local], *encoding: Any
    ) -> Iterator[NewPanel]:
        for owner, own in new.items():
            n_rows = self.federation.publish(count, own, party=owner).n_samples
            yield from new_panels(self._evaluation, self.n_samples, owner, n_rows, *encoding)

    def _encode(self) -> None:
        """Have every client share out its rows, once."""
        if self._evaluation.is_ready:
            return
        own = (rows.encode_quantised, self.own) if self.own else self._place.encoding
        self._evaluation.encode(self._place.public, self.plan, *own)
