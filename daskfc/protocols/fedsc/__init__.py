"""FedSC: federated spectral clustering by reconstruction of the similarity.

Paper       Qiao, Ding, Fan, "Federated Spectral Clustering via Secure Similarity Reconstruction",
            NeurIPS 2023.

Notation    paper   here            shape, range
            P       clients         int >= 1
            X_p     data            (N_p, m) samples of client p, in rows
            Z       dictionary      (d, m) atoms
            C_p     coefficients    (d, N_p), stays at the client
            S, Q    rounds, local_steps   int >= 1
            r, λ    kernel_width, ridge   float > 0
            ω_p     weighting       N_p / n, or 1 / P

Messages    who → whom           class             what it reveals
            client → client      KeyOffer, SealedDigestKey   the pseudonyms' key, to clients
            client → server      SampleDigests     pseudonyms of the samples
            client → server      StoreContent      whether the samples are the same as in an
                                                   earlier run; not with (ε, δ) noise
            client → server      KernelSummary     size, mean distance, rank of the kernel
            server → client      KernelPlan        width, number of atoms, largest magnitude
            client → client      PublicKeys        nothing
            client → server      MaskedPart        sums of features and squares; the mean of Z
            server → client      Dictionary        the mean of Z
            server → client      FinalDictionary   the last Z and the root of its kernel
            client → server      SimilarityRows    similarities, and through Z the samples
            or, with coded similarity
            client → server      RowSummary, SquaredNorms    a bound; self-similarities
            client → client      HidingKey, CodedRows        nothing to few colluding clients
            client → server      CodedDistances    similarities
            server → client      ClientLabels      the clusters of its samples
            server → caller      DictionaryChange, KernelPlan, Resumed: change of Z, chosen values
            server → caller      ClusterScores     on request: how well numbers of clusters fit
            client → caller      Reconstruction    on demand: errors of its own similarities
            client → caller      LabelledSamples   labels with sample ids

Departures  (1) The step on Z is the closed form of the published code's preconditioned step, not a
                gradient step. (2) Z starts from moments of the features.
            (3) C belongs to the last Z. (4) The mean is weighted by samples, as a masked sum.
            (5) Rows B_p = C_pᵀ R with K(Z, Z) = R Rᵀ leave the client in place of C_p: the same
                inner products, in fewer operations. (6) Atoms are clipped at 16 times the largest
                magnitude of all samples.
"""

from daskfc.protocols.fedsc.estimator import FedSC

__all__ = ["FedSC"]
