//! Git in and out: fetch, read a tree, write the status branch, in a child process with a deadline.
