//! The production edge on the embedded cluster.
