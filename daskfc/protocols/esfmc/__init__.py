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
            g̃        from_assignments      (N, K) to (N, d_m)
            φ        share of the samples  that all views have
            R        rounds                int >= 1
            α        alpha, temperature    float >= 0

Messages    who → whom        class              what it reveals
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

Departures  (1) The printed loss has the negative of a cross-entropy, and a histogram without a
                gradient: see `losses`.
            (2) Clusters keep their numbers between rounds (Hungarian method), or heads would learn
                other numbers each time.
            (3) Recipe "robust", the default: local labels by spectral clustering, Adam with
                Langevin's noise, the server's clustering as in `maths.grouping`; a view counts in
                the first round as its own clusters are separate (modularity).
            (4) With "align" and "robust", rows are filled in from the third round on, heads learn
                from samples that all views have, and the alignment loss counts a tenth: as printed,
                heads learn from labels that follow from themselves.
            (5) A sample that only some views have gets the label that most of their heads say.
            (6) The noise of Eq. (7) comes from a seed and protects nothing; noise on shared
                features, which does, is another parameter.
"""

from daskfc.protocols.esfmc.estimator import ESFMC

__all__ = ["ESFMC"]
