"""Reading a page that a program wrote."""


def row_of(text, *start):
    """Return the cells of the one row of the page's tables that starts with these."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    [found] = [row for row in rows if tuple(row[: len(start)]) == start]
    return found
