"""OmniFC: cluster on exact distances that no client's neighbours and no server could compute alone.

Paper       J. Yan, X. Liu, Z.-Y. Zhang, "OmniFC: Rethinking Federated Clustering via Lossless and
            Secure Distance Reconstruction".

Notation    paper  here            shape, range
            m      clients         int >= 2l + 2t - 1
            l      n_segments      int >= 1, segments of a row
            t      n_colluding     int >= 1, clients that may collude
            q      scale           the paper's 2**q; any number > 0 here
            p      primes          1 to 13 primes below 2**8 (or fewer below 2**24)
            X̃      quantise(X)     (n, d) int64
            z_ij   residues        (r, n, ceil(d / l)) of evaluator j
            D      distances       (n, n) squared, float64

Messages    who → whom           class            what it reveals
            client → client      KeyOffer, SealedDigestKey   the key of the pseudonyms, to clients
            client → server      SampleSummary    pseudonyms, number of features, rounded range,
                                                  whether the samples are the same as before
            client → server      MaskedPart, Reach, NearestApart   where needed: a sum of the
                                                  samples; rounded, their largest distance from
                                                  its mean, and the smallest one of two that differ
            server → client      Centre           of samples far from the origin, the mean, rounded
            server → caller      PublicPlan       numbers of samples and features, range
            server → caller      GapReport        with ``gaps``: how many samples lack columns, how
                                                  many pairs share some or none, the least share
            server → evaluators  RowPositions     places of the rows, in an arbitrary order
            client → evaluators  HidingKey        a key that the server must not have
            client → evaluators  CodedRows        nothing to any t of them
            client → evaluators  GapsAllowed      with ``gaps``, that it was told of them
            evaluator → server   CodedDistances   the true distances, once 2l + 2t - 1 are in;
                                                  those of a block may go to a server's worker;
                                                  with ``gaps``, over what two samples share
            server's worker → server   NearestOfBlock, PairsOfBlock, DistancesOfBlock   of such a
                                                  block, the distances that the server keeps
            server → evaluators  Landmarks        which samples are landmarks (landmark mode)
            server → client      KeptRows         with ``start="last"``, how many rows it had then
            client → server      RowTags          then, whether these are the same
            server → caller      LastFit          then, whether they are, and how many
            server → client      ClientLabels     the clusters of its own samples
            server → caller      DecodedBlock, MissingBlocks, LandmarkStatus, ServerDisk,
                                 ClusterReport    progress, wrong evaluators, cluster sizes
            server → caller      ClusterScores    on request, how well numbers of clusters fit
            server → caller      SampleMap        on request, two coordinates of 2,000 samples
            client → caller      LabelledSamples, NewSamples   labels with sample ids
            client → client      PublicKeys, SharedRows, SharedWords, LabelSummand   with
                                                  ``reveal="labels"``: see `three_parties`
            client → caller      RoundsTaken      of these, how many rounds there were

The server learns D, that is, all samples up to one rigid motion. That is the paper's design. With
``reveal="labels"``, which is not the paper's, nobody learns a distance.

Departures  (1) Eq. (6) divides by 2**q; squared distances carry the square of the scale.
            (2) A residue number system of small primes in place of one large prime: same distances,
                at the speed of integer matrix products.
            (3) The scale is any number, so that data on a grid have no error at all; other data
                are shared again on a finer grid where labels depend on smaller distances.
            (4) Clients add a shared random polynomial that vanishes in the sum (Eq. 5); without it
                the answers reveal the distance of every single segment to the server.
            (5) Only 2l + 2t - 1 clients and some spares evaluate; spare answers validate the
                others, and a wrong evaluator is named and left out.
            (6) All n samples are clustered where the paper draws 1000 of more than 5000.
            (7) Samples are clustered in an order that follows from their distances, not from
                clients and ids; equal samples have one label.
            (8) Landmark mode: D has rank at most d + 2, a few columns determine it.
            (9) The shares of t evaluators are drawn, not the noise of Eq. (2), which follows: these
                get the key of a stream in place of a share, with the same distribution.
            (10) Clients may hold columns, of which samples may lack some: see ``split``, ``gaps``.
"""

from daskfc.protocols.omnifc.estimator import OmniFC

__all__ = ["OmniFC"]
