"""Images in, batches out. No label anywhere."""
