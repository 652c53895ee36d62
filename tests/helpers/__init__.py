"""What tests share: trees of files, streams, slow twins, the contract of methods."""
