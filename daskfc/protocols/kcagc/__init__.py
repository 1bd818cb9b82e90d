"""kCAGC: attributed graph clustering over vertically split features.

Paper       R. Zhang et al., "Attributed Graph Clustering in Collaborative Settings".

Notation    paper   here                shape, range
            L       clients             int >= 2, participants
            k       n_clusters          int
            k̂       n_local_clusters    int
            ψ       filter_order        int >= 0
            X^l     data                (n, d_l) columns of participant l
            Y^l     rows                (n, min(k, d_l)) filtered and projected
            U       intersections       (v,) non-empty, v <= min(n, k̂^L)
            D_ir    sums                (n, k) or (v, k) squared distances over all participants

Messages    who → whom           class            what it reveals
            client → client      KeyOffer, SealedDigestKey   the pseudonyms' key, to clients
            client → server      SampleDigests    pseudonyms of the samples
            client → client      PublicKeys       nothing
            client → server      Magnitude        largest squared row norm, as a power of two
            client → server      MaskedPart       the sum over the participants, of squared norms
                                                  and of distances to landmarks or centres
            server → client      GlobalNorms      squared norms over all participants
            client → server      LocalClusters    which samples are alike in its columns
            server → client      Intersections    which samples are alike in all columns
            server → client      Measure          the landmarks, or clusters of this round
            server → client      ClientLabels     the clusters
            server → caller      LloydProgress         counts and inertia
            server → caller      DistanceView       the last sums; raw, for studies (`server_view`)
            client → caller      LabelledSamples  labels with sample ids (the first client)

Departures  (1) The server is a party of its own, which holds no data: as written, the aggregator is
                a participant, so that with L = 2 nothing is masked.
            (2) Each round sums one masked matrix, not n·k masked numbers; both are counted.
            (3) X25519, HKDF and AES-CTR in place of a prime group; sums modulo 2**64.
            (4) Starts are k-means++ on the sums, several side by side; Lloyd runs until no label
                changes.
            (5) A virtual node is the mean of its intersection, weighted by its size.
            (6) Rows are divided by global norms by default (basis "U" is as written), local
                clusters are then of directions, and one round on all samples refines the result.
            (7) Distances to landmarks are summed once, in place of those to every round's centres,
                where the server would learn as much from the latter; "centres" is as written.
            (8) Samples are clustered in an order of their values; sums are rounded to 34 bits.
            (9) With more than five participants, each shares masks with its neighbours on a circle
                only, not with all others.
"""

from daskfc.protocols.kcagc.estimator import KCAGC

__all__ = ["KCAGC"]
