//! Tells the tests which outside programs are at hand, so that a test that needs one is ignored
//! with the command that gets it, instead of passing without having run.
//!
//! `cfg(control_plane)`: the programs that `tests/control-plane/build` makes are there, or
//! `NODEWRIGHT_REQUIRE_CONTROL_PLANE=1` wants a failure where they are not.
//! `cfg(sshd)`: an OpenSSH server is installed, or `NODEWRIGHT_REQUIRE_SSHD=1`.
#![expect(clippy::disallowed_methods, clippy::disallowed_macros, reason = "a build script")]

use std::env;
use std::path::{Path, PathBuf};

fn main() {
    for name in
        ["KUBEBUILDER_ASSETS", "NODEWRIGHT_REQUIRE_CONTROL_PLANE", "NODEWRIGHT_REQUIRE_SSHD"]
    {
        println!("cargo:rerun-if-env-changed={name}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    let assets = control_plane_folder();
    println!("cargo:rerun-if-changed={}", assets.join("kube-apiserver").display());
    let complete = ["etcd", "kube-apiserver", "kube-controller-manager"]
        .iter()
        .all(|program| assets.join(program).exists());
    if complete || required("NODEWRIGHT_REQUIRE_CONTROL_PLANE") {
        println!("cargo:rustc-cfg=control_plane");
    }
    println!("cargo:rerun-if-changed=/usr/sbin/sshd");
    if Path::new("/usr/sbin/sshd").exists() || required("NODEWRIGHT_REQUIRE_SSHD") {
        println!("cargo:rustc-cfg=sshd");
    }
}

fn required(name: &str) -> bool {
    env::var(name).is_ok_and(|value| value == "1")
}

/// The same folder as `tests/control-plane/build` writes to by default.
fn control_plane_folder() -> PathBuf {
    if let Some(folder) = env::var_os("KUBEBUILDER_ASSETS") {
        return PathBuf::from(folder);
    }
    let cache = env::var_os("XDG_CACHE_HOME").map_or_else(
        || PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(".cache"),
        PathBuf::from,
    );
    cache.join("nodewright/control-plane/v1.36.5")
}
