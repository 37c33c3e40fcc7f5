//! The agent runs real packages chrooted into a folder.
