//! The agent runs real packages chrooted into a folder.

mod config;
mod flags;
pub(crate) mod host;
mod interrupt;
mod modes;
mod steps;
mod termination;
