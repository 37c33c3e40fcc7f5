//! The command as a process.
