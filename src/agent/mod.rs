//! Runs in the executor pod: the steps of a package, chrooted into the host.
