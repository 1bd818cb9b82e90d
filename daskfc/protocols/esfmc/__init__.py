"""ESFMC: federated multi-view clustering with networks that split features.

Paper       X. Chen et al., "An Effective and Secure Federated Multi-View Clustering Method with
            Information-Theoretic Perspective", ICML 2025.

Notation    paper    here                  shape, range
            M        clients               int, one view each or several to a view
            N, N_m   n_samples             int, over all clients and of one
            K        n_clusters            int >= 2
            X^m      rows                  (N_m, columns) float32, stay at the client
            Z^m      z                     (N_m, latent_dim), stays at the client
            Z_c^m    z_c                   (N_m, d_m), what the server gets
            Z_x^m    z_x                   (N_m, latent_dim), stays at the client
            Y        labels                (N,) int64 in [0, K), -1 for none
            Q^m, Q   assignments           (N_m, K) and (N, K), rows add up to 1
            f        "encoder"             rows to Z
            φ_c, φ_x "to_z_c", "to_z_x"    Z to Z_c and Z_x, linear (Eq. 3)
            g_wr     "decoder"             Z_x to rows
            g_wc     "head"                Z_c to Q^m
            g̃_wz     "from_assignments"    Q to Z_c (Eq. 11)
            w        weights               (p,) float32, of all networks together
            η, ζ     learning_rate, noise
            φ        share of the samples  that all views have
            R        rounds                int >= 1
            α        alpha, temperature    float >= 0

Messages    who → whom        class              what it reveals
            client → client   KeyOffer, SealedDigestKey   the key of the digests, to clients
            client → server   SampleDigests      which samples clients share
            server → client   LinkedSamples      how many there are, which all views have
            client → server   SharedFeatures     Z_c of every sample, in every round
            client → server   Assignments        Q^m, with incomplete="align"; new samples of
                                                 several views in `predict`
            server → client   ClientLabels       the clusters of its own samples
            server → client   SharedAssignments  Q, with incomplete="align"
            client → server   Votes              clusters of samples that some views lack
            server → caller   LinkReport, RoundReport
            client → caller   TrainingLosses, LabelledSamples

Departures  (1) The second term of Eq. (4) is printed with the sign of the logarithm of a
                likelihood, which training would make small: it is the cross-entropy here.
            (2) The third term counts rows in bins, and counts have no gradient: `losses` has
                estimators of dependence that have one.
            (3) Clusters keep their numbers between rounds (Hungarian method), or heads would learn
                other numbers each time.
            (4) Recipe "robust", the default: Adam preconditions the gradient of Eq. (7), so that
                it is no sampler of Eq. (6); local labels by spectral clustering; a view counts in
                the first round as its own clusters are separate (modularity); the server clusters
                as in `maths.grouping`. Recipe "paper" is the text.
            (5) With "align" and "robust", heads learn from samples that all views have, and the
                alignment loss counts a tenth: as printed, heads learn from labels that follow from
                themselves. A sample that a view lacks gets the label that Q has: rows that are
                filled in (Eq. 13) say no more than Q, and k-means on them less.
            (6) A sample that only some views have gets the label that most of their heads say.
            (7) With "robust" networks see a view in `units` of its own, which the paper does not
                name: labels do not depend on the unit in which a client keeps its view.
            (8) The noise of Eq. (7) comes from the algorithm's seed. It hides nothing from anybody,
                and no promise of privacy rests on it: noise on shared features is apart.

Modules     The networks need JAX: `framework`, `networks`, `losses`, `optimisers`, `epochs` and
            `training`. A step imports `training` inside, so that all else works without.
"""

from daskfc.protocols.esfmc.estimator import ESFMC

__all__ = ["ESFMC"]
