"""What every room stands on: DuckDB, parameters, dates, hashes, files; it knows no memories."""
