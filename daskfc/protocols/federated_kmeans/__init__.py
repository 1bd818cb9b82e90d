"""Federated k-means: the server learns centres and sums over groups of samples, and no distances.

Paper       S. P. Lloyd, "Least squares quantization in PCM", IEEE Trans. Inf. Theory 1982; starts
            by D. Arthur, S. Vassilvitskii, "k-means++: the advantages of careful seeding", SODA
            2007; groups as in C. C. Aggarwal, P. S. Yu, "A condensation approach to privacy
            preserving data mining", EDBT 2004.

Notation    here            shape, range
            k               n_clusters, int >= 1
            n, d            samples of all clients, features
            X[m]            (n_m, d), stays at client m
            C               cluster_centers_, (k, d)
            R, ε, δ         of `noise`: largest_norm > 0, epsilon > 0, delta in (0, 1)

Messages    who → whom        class            what it reveals
            client → client   PublicKeys       nothing
            client → server   Magnitude        bounds on its first two sums, powers of two
            client → server   MaskedPart       sums over clients: of all samples and their squares;
                                               of groups of five samples or more; counts by group
                                               and nearest centre
            server → client   KMeansProposal   centres and the mean of all samples, in each round
            server → client   KMeansCounts     the counts
            server → caller   KMeansProgress   a bound on the next sums, who takes part
            server → client, caller   KMeansCenters   the centres, and the inertia
            server → client, caller   ClusterShares, ClientPriors   with `client_priors`: numbers of
                                               samples by nearest centre, how unlike clients are
            client → caller   LabelledSamples  labels with sample ids
            With noise: sums that bear it, and KMeansReach in place of proposals and counts.

Departures  (1) Rounds of Lloyd's that open every cluster's sum give a server all samples: sums that
                differ by one sample are that sample (docs/attacks.md). So samples form groups that
                do not overlap, of five or more, and only these and once the clusters are summed:
                `daskfc.secure.kmeans.groups`.
            (2) k-means++ and Lloyd's run at the server, on rows drawn by the groups' moments, until
                groups are fine enough; then groups split by Lloyd's own centres, where samples that
                are too few to split off stay; the last round moves nearly all of these too.
            (3) With noise: `daskfc.secure.kmeans.private`.
            (4) Labels that count each client's own shares of clusters: `priors`.
"""

from daskfc.protocols.federated_kmeans.estimator import FederatedKMeans

__all__ = ["FederatedKMeans"]
