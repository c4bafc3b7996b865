"""Turn the rows of a study into a page, tables and figures in which every number is traced."""
