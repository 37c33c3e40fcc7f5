//! The decision: a pure function from what is wanted and what is seen to what to do next.
