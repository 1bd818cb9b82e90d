"""Federated Gaussian mixture: the server learns the parameters of each iteration, by masked sums.

Paper       A. P. Dempster, N. M. Laird, D. B. Rubin, "Maximum likelihood from incomplete data via
            the EM algorithm", J. R. Stat. Soc. B 1977. The start is that of
            `daskfc.protocols.federated_kmeans`.

Notation    here            shape, range
            k               n_clusters, int >= 1
            n, d            samples of all clients, features
            X[m]            (n_m, d), stays at client m
            w, μ, Σ         weights_ (k,), means_ (k, d), covariances_
            r               responsibilities, (n_m, k), of each client's own samples

Messages    who → whom        class             what it reveals
            client → client   PublicKeys        nothing
            client → server   ColumnMagnitudes  bounds on its features, powers of two
            client → server   Magnitude         bounds on its sums, powers of two
            client → server   MaskedPart        sums over clients: of the start, as with
                                                FederatedKMeans; of each iteration
            server → client   FittedMeans, MixtureUnits, KMeansProposal, KMeansCounts
                                                means, deviations, centres and counts
            server → client, caller   Mixture   parameters of each iteration
            server → client   MixtureHeld       which components stay as they are in an iteration
            server → caller   MixtureProgress   the log-likelihood, whether rounds go on
            client → caller   LabelledSamples   labels with sample ids

Departures  (1) `reg_covar` is a share of the features' variances, as nobody sees their units. On
                standardised features it is scikit-learn's.
            (2) The start is k-means on standardised features, if not "spherical", and variances of
                its clusters; none of its sums is opened for the mixture.
            (3) Of each iteration two sums are opened: first how many responsibilities a component
                has and how many have changed, then, where these are of enough samples, moments. A
                component of fewer than five samples gets weight 0, and the others its samples.
            (4) A component that fewer than five samples would change keeps its responsibilities in
                that iteration, and others share the rest: a partial step, as R. M. Neal, G. E.
                Hinton, "A view of the EM algorithm", 1998. Iterations end where all but one do.
            (5) Iterations end before all sums are as many numbers as the samples have.
"""

from daskfc.protocols.federated_mixture.estimator import FederatedGaussianMixture

__all__ = ["FederatedGaussianMixture"]
