"""fairseq tasks; fairseq imports every file here when --user-dir is loaded."""
