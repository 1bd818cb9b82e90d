"""Federated multi-view clustering by feature splitting: the networks of one client.

Paper       "An Effective and Secure Federated Multi-View Clustering Method with
            Information-Theoretic Perspective" (ESFMC), ICML 2025: Sections 3.3 and 3.5, Appendices
            C.2, C.3 and D.

Notation    paper        here                 shape, range
            m            the client           one view
            N_m, K       n, n_clusters        int
            X^m          rows                 (n, n_columns) float32, stays at the client
            Y            labels               (n,) int64, -1 for rows without a label
            f            "encoder"            rows → Z
            φ_c, φ_x     "to_z_c", "to_z_x"   Z → Z_c, Z → Z_x, linear (Eq. 3)
            g_wr         "decoder"            Z_x → rows
            g_wc         "head"               Z_c → clustering assignments Q^m
            g̃_wz         "from_assignments"   Q → Z_c (Eq. 11)
            w            weights              (p,) float32, of all networks together
            η, α, ζ      learning_rate, temperature, noise

Departures  (1) The second term of Eq. (4) is printed with the sign of the logarithm of a
                likelihood, which training would make small: it is the cross-entropy here.
            (2) The third term counts rows in bins, and counts have no gradient: `losses` has
                estimators of dependence that have one.
            (3) Recipe "robust" lets Adam precondition the gradient of Eq. (7): it is not a sampler
                of Eq. (6). Recipe "paper" is Eq. (7) as printed.
            (4) The noise of Eq. (7) comes from the algorithm's seed. It hides nothing from anybody,
                and no promise of privacy rests on it.

Modules     `settings`, `batches` and `local_labels` need no framework. The others import JAX: a
            step imports `training` inside, so that all else works where JAX is not installed.
"""
