"""What a deal of views must be, counted one sample at a time."""


def check_views(clients, n_samples, n_views, clients_per_view, overlap):
    """Hold a deal against its description; `clients` are lists of rows, view by view."""
    assert len(clients) == n_views * clients_per_view
    everywhere = 0
    for sample in range(n_samples):
        holders = [number for number, rows in enumerate(clients) if sample in set(rows)]
        views = [number // clients_per_view for number in holders]
        assert len(views) == len(set(views)), "two clients of one view share a sample"
        assert views, "nobody holds a sample"
        everywhere += len(views) == n_views
    assert everywhere == round(overlap * n_samples)
    for view in range(n_views):
        own = clients[view * clients_per_view : (view + 1) * clients_per_view]
        sizes = [len(rows) for rows in own]
        assert max(sizes) - min(sizes) <= 1
        assert all(list(rows) == sorted(set(rows)) for rows in own)
