//! libgit2's process-wide options: the one place with `unsafe` code.
//!
//! They are unsafe because libgit2 keeps them in plain global variables: nothing else may use
//! libgit2 at the same moment. They are therefore set in the transport process only, first thing,
//! while it has one thread that does anything.
#![expect(unsafe_code, reason = "libgit2 has process-wide options and no safe call for them")]

use std::ffi::c_int;
use std::path::Path;

use git2::ConfigLevel;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT_MS: c_int = 10_000;

/// How long one read or write may take; long, because the parent's deadline bounds the whole.
///
/// It must be set: for the time-out above libgit2 makes the socket non-blocking, and without this
/// one it then takes every answer that is not there at once for a broken connection.
const READ_TIMEOUT_MS: c_int = 600_000;

/// Sets what holds for every transfer of this process.
///
/// - No configuration of the system or the user: a `url.insteadOf` there would send us elsewhere.
/// - A local repository may belong to another user: a mounted volume does, and we run none of its
///   hooks and filters.
///
/// # Errors
///
/// libgit2 refuses an option, which it does for no value we give.
pub(super) fn set_process_options() -> Result<(), git2::Error> {
    let levels =
        [ConfigLevel::ProgramData, ConfigLevel::System, ConfigLevel::XDG, ConfigLevel::Global];
    for level in levels {
        // SAFETY: this process does nothing else with libgit2 yet, see the module's text.
        unsafe { git2::opts::set_search_path(level, "") }?;
    }
    // SAFETY: as above.
    unsafe { git2::opts::set_verify_owner_validation(false) }?;
    // SAFETY: as above.
    unsafe { git2::opts::set_server_connect_timeout_in_milliseconds(CONNECT_TIMEOUT_MS) }?;
    // SAFETY: as above.
    unsafe { git2::opts::set_server_timeout_in_milliseconds(READ_TIMEOUT_MS) }
}

/// Trusts the certificates in `bundle` besides the system's.
///
/// # Errors
///
/// The file is missing or holds no certificate.
pub(super) fn trust_certificates(bundle: &Path) -> Result<(), git2::Error> {
    // SAFETY: called before the first connection, by the only thread that uses libgit2.
    unsafe { git2::opts::set_ssl_cert_file(bundle) }
}
