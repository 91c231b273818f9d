"""The table files that we read and write. Apart from the readers: who only looks at names needs none of them."""

SUFFIXES = {
    ".csv": "csv",
    ".txt": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
"""Format by suffix; that of a text format may be followed by .gz."""

_WORKBOOKS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods", ".numbers")


def unknown_suffix(name: str) -> str:
    """What to say of a file whose suffix says no format that we read and write."""
    if name.lower().endswith(_WORKBOOKS):
        return f"{name} is a workbook by its suffix; save the sheet as CSV or Parquet, and name that file."
    return f"{name} has no suffix that says its format; use one of {', '.join(SUFFIXES)} (text also with .gz)."
