"""fairseq tasks; fairseq imports the files of this folder itself."""
