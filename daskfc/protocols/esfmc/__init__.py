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
            server → client   LinkedSamples      number of samples, and which all views have
            client → server   SharedFeatures     Z_c of every sample, in every round
            client → server   Assignments        Q^m, with incomplete="align"; new samples of
                                                 several views in `predict`
            server → client   ClientLabels       the clusters of its own samples
            server → client   SharedAssignments  Q, with incomplete="align"
            client → server   Votes              clusters of samples that some views lack
            server → caller   LinkReport, RoundReport
            client → caller   TrainingLosses, LabelledSamples

Departures  (1) The second term of Eq. (4) is printed with the sign of a log-likelihood, which
                training would minimise: here it is the cross-entropy.
            (2) The third term counts rows in bins, which has no gradient: `losses` has
                differentiable estimators of dependence.
            (3) Clusters keep their numbers between rounds (Hungarian method), so that heads need
                not learn other numbers each time.
            (4) Recipe "robust", the default: Adam preconditions the gradient of Eq. (7), so that
                it does not sample Eq. (6); local labels are from spectral clustering; in the first
                round a view is weighted by the modularity of its own clusters; the server clusters
                as in `maths.grouping`. Recipe "paper" is the text.
            (5) With "align" and "robust", heads learn from samples that all views have, and the
                alignment loss has weight 0.1: as printed, heads learn from their own labels. A
                sample that a view lacks gets its label from Q: rows that are filled in (Eq. 13)
                contain no more than Q, and k-means on them gives less.
            (6) A sample that only some views have gets the majority label of their heads.
            (7) With "robust" networks see a view in its own `units`, so that labels do not depend
                on the unit in which a client keeps its view; the paper names none.
            (8) The noise of Eq. (7) comes from the algorithm's seed and protects nothing; noise on
                shared features, for privacy, is separate.

Modules     Only `networks` needs JAX. A step imports `networks.training` inside, so that all else
            works without it.
"""

from daskfc.protocols.esfmc.estimator import ESFMC

__all__ = ["ESFMC"]
