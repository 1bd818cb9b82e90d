"""Measure attacks on what parties see, without what protects against them and with it.

It takes a minute, and prints the numbers of docs/attacks.md.
"""

from pipelines.attacks import kmeans
from pipelines.attacks.distances import KNOWN, SETS, rows_beside_known
from pipelines.attacks.rounds import averaged_rows, subset_dictionaries
from pipelines.attacks.samples import holders_found, ids_found, rows_found


def main() -> None:
    """Print what each attack finds."""
    print("ids of 300 in a register of 10,000: {:.3f}, now {:.3f}".format(*ids_found()))
    print("two rows of two digits, by their digest: {}, now {}".format(*rows_found()))
    print("who of three holds which id: {:.3f}, now {:.3f}".format(*holders_found()))
    for rounds in (20, 60):
        some, everybody = (subset_dictionaries(part, rounds) for part in (0.6, 1.0))
        print("clients of 5 singled out in {} rounds, error: {}, {:.3f}, now {}, {:.3f}".format(
            rounds, *some, *everybody))  # fmt: skip
    for name in SETS:
        found = (rows_beside_known(name, known) for known in KNOWN)
        told = ", ".join("{}: {:.2f} ({:.2f})".format(*one) for one in
                         ((k, *off) for k, off in zip(KNOWN, found, strict=True)))  # fmt: skip
        print(f"error of rows of {name} by number of known ones (of the nearest): {told}")
    for embedded in (False, True):
        for name, n in kmeans.CASES:
            what, found = kmeans.shares_by_rounds(name, n, embedded)
            rows, k = kmeans.rows_of(name, n, embedded)
            now = kmeans.rows_recovered(kmeans.opened_now(rows, k), rows)
            each = zip(kmeans.STARTS_ROUNDS, found, strict=True)
            told = ", ".join("{}: {:.1%} ({:.1%})".format(how, *one) for how, one in each)
            print(f"{n} rows of {what} by (starts, rounds) of k-means, alone (with labels): "
                  "{}, now: {:.1%} ({:.1%})".format(told, *now))  # fmt: skip
    for rank, starts in kmeans.PLACED:
        share = kmeans.rows_placed(starts, rank=rank)
        print(f"rows of {rank} dimensions placed by distances to centres, {starts} starts: {share}")
    print("noise left of 16 releases, over sigma: {:.3f}, now {:.3f}".format(*averaged_rows()))


if __name__ == "__main__":
    main()
