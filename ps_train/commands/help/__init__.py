"""The verb `help`: it prints the pages of the documents, which the package brings along."""
