"""OmniFC: cluster on exact distances that no client's neighbours and no server could compute alone.

Paper       J. Yan, X. Liu, Z.-Y. Zhang, "OmniFC: Rethinking Federated Clustering via Lossless and
            Secure Distance Reconstruction".

Notation    paper  here            shape, range
            m      clients         int >= 2l + 2t - 1
            l      n_segments      int >= 1, segments a row is cut into
            t      n_colluding     int >= 1, clients that may pool what they see
            q      scale           the paper's 2**q; any number > 0 here
            p      primes          1 to 13 primes below 2**8 (or fewer below 2**24)
            X̃      quantise(X)     (n, d) int64
            z_ij   residues        (r, n, ceil(d / l)) of evaluator j
            D      distances       (n, n) squared, float64

Messages    who → whom           class            what it reveals
            client → client      KeyOffer, SealedDigestKey   the key of the pseudonyms, to clients
            client → server      SampleSummary    pseudonyms, number of features, rounded range,
                                                  whether the samples are the same as before
            client → server      MaskedPart, Reach, NearestApart   where it matters: a sum of the
                                                  samples; rounded, how far they go from its mean,
                                                  and how near those are that differ
            server → client      Centre           of samples far from the origin, the mean, rounded
            server → caller      PublicPlan       numbers of samples and features, range
            server → evaluators  RowPositions     places of the rows, in an order of no meaning
            client → evaluators  HidingKey        a key that the server must not have
            client → evaluators  CodedRows        nothing to any t of them
            evaluator → server   CodedDistances   the true distances, once 2l + 2t - 1 are in;
                                                  of a block, it may be to a worker of the server
            server's worker → server   NearestOfBlock, PairsOfBlock, DistancesOfBlock   those of
                                                  such a block that the server keeps
            server → evaluators  Landmarks        which samples are landmarks (landmark mode)
            server → client      ClientLabels     the clusters of its own samples
            server → caller      DecodedBlock, MissingBlocks, LandmarkStatus, ServerDisk,
                                 ClusterReport    progress, wrong evaluators, cluster sizes
            server → caller      ClusterScores    how well numbers of clusters fit, where asked for
            server → caller      SampleMap        on request, two coordinates of 2,000 samples
            client → caller      LabelledSamples, NewSamples   labels with sample ids

The server learns D, that is, all samples up to one rigid motion. That is the paper's design.

Departures  (1) Eq. (6) divides by 2**q; squared distances carry the square of the scale.
            (2) A residue number system of small primes in place of one large prime: same distances,
                at the speed of integer matrix products.
            (3) The scale is any number, so that data on a grid have no error at all; others are
                shared out again where labels depend on distances that the grid is too coarse for.
            (4) Clients add a shared random polynomial that vanishes in the sum (Eq. 5); without it
                the answers tell the server the distance of every single segment.
            (5) Only 2l + 2t - 1 clients and some spares evaluate; spare answers are checked against
                the others, and a wrong evaluator is named and left out.
            (6) All n samples are clustered where the paper draws 1000 of more than 5000.
            (7) Samples are clustered in an order that follows from their distances, not from who
                has them under which ids; equal samples have one label.
            (8) Landmark mode: D has rank at most d + 2, a few columns determine it.
            (9) The noise of Eq. (2) is not drawn, but the shares of t evaluators, which tell it:
                these get the key of a stream in place of a share, with the same distribution.
"""

from daskfc.protocols.omnifc.estimator import OmniFC

__all__ = ["OmniFC"]
