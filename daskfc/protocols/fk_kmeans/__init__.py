"""Federated kernel k-means by random features and distributed eigen-solvers.

Paper       "A communication efficient federated kernel k-means", under review at ICLR 2021.

Notation    paper    here                shape, range
            M        clients             int
            k        n_clusters          int
            D        n_features          int >= k + 2
            s        n_eigenvectors      int, k by default
            T, t     iterations, number  int >= 1
            η_t      learning_rate       1/t
            λ        threshold           (k + 2)-th eigenvalue of the first iteration
            A_t[m]   φ √D                (n_m, D) random features, drawn anew in each iteration
            B_t[m]   the last columns    (n_m, r_t), B_t B_tᵀ = Z_t, the estimate of K
            W_t[m]   WeightedRows        (n_m, D + r_t)
            H[m]     embedding           (n_m, s), stays at the client
            C        coreset_size        int
            Q_0, Q_1 n_products          int, products that Lanczos takes

Messages    who → whom        class            what it reveals
            client → server   StoreContent     whether the samples are the same as before
            client → client   PublicKeys       nothing
            client → server   MaskedPart       the sum over clients: n; Σx and Σ|x|² for the width;
                                               WᵀW in each iteration, or its products
            server → client   FeaturePlan      the kernel's width, n
            server → client   Centre           of samples far from the origin, the mean
            server → client   LanczosVectors   directions (solver "lanczos")
            server → client   Eigenpairs       the largest eigenpairs of WᵀW
            server → caller   Eigenpairs, LanczosProgress, IterationsDone
            messages of `daskfc.secure.kmeans`; by coresets the coordinates of some samples
            client → caller   LabelledSamples  labels with sample ids
            With `communication_efficient` off, Section 4.1: SampleCount, VectorRows,
            ProjectedVectors, ProductRows, EmbeddedRows and Spectrum.

Departures  (1) All sums are masked: the server sees Σ WᵀW, not each client's (Theorem 4).
            (2) One sum of the triangle of WᵀW gives all eigenpairs in one round trip; Lanczos, the
                paper's solver, is the alternative, also with blocks of vectors.
            (3) η_t = 1/t (Algorithm 1), not Theorem 1's 2/t, which is above 1 at t = 1.
            (4) The root missing in the text's H: √(λ_i + (1 - η) λ), as in K̂ of Section 6.2.
            (5) The kernel's width follows from a secure sum; samples far from the origin are
                centred at their mean, which changes no stationary kernel.
            (6) Coresets' negative weights and k-means by sums: see `daskfc.secure.kmeans`.
"""

from daskfc.protocols.fk_kmeans.estimator import FederatedKernelKMeans

__all__ = ["FederatedKernelKMeans"]
