"""The paper's data sets, tables, ablations and rivals."""
