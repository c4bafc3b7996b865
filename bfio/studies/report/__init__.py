"""Turn the rows of a study into a page, tables and figures with traced numbers."""
