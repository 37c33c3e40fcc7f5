//! What upstream's operator left in a cluster is read, moved and deleted as it ought to be.

mod keys;
mod lease;
mod mirror;
mod status;
mod work;
