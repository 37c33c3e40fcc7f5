//! The agent runs real packages chrooted into a folder.

mod config;
mod flags;
mod host;
mod interrupt;
mod modes;
mod steps;
mod termination;
