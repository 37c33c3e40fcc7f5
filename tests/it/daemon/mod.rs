//! The loop: leadership, stop, kills between any two writes.

mod story;
