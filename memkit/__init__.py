"""memkit: agents' memory folders as Arrow tables, with SQL, search that explains itself, and policies to replay."""
