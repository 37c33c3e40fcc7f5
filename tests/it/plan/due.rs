//! What is due: every situation of a package on a node, written down.
