//! Git servers on loopback.
