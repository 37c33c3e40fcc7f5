//! The demo: its examples are complete, and as a process it tells its story and leaves nothing.

mod examples;
mod process;
