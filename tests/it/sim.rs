//! The embedded cluster behaves like the real one.
