"""Reports: one file a way of telling the diagnosis."""
