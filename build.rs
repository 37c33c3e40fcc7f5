//! Tells the tests which outside programs are at hand, so that a test that needs one is ignored
//! with the command that gets it, instead of passing without having run.
//!
//! `cfg(control_plane)`: the programs that `tests/control-plane/build` makes are there, or
//! `NODEWRIGHT_REQUIRE_CONTROL_PLANE=1` wants a failure where they are not.
//! `env!("NODEWRIGHT_CONTROL_PLANE_FOLDER")`: the folder where the tests look for them.
//! `cfg(sshd)`: an OpenSSH server is installed, or `NODEWRIGHT_REQUIRE_SSHD=1`.
//!
//! Only paths that exist are watched: cargo takes a missing one for changed, and would compile
//! the crate again at every call. What may appear later is watched through its folder:
//! `tests/control-plane` gets a new `.built` at every run of `build`, `/usr/sbin` an `sshd`.
#![expect(clippy::disallowed_methods, clippy::disallowed_macros, reason = "a build script")]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// The module file that says which Kubernetes the tests run against.
const MODULE_FILE: &str = "tests/control-plane/go.mod";

fn main() {
    for name in [
        "HOME",
        "KUBEBUILDER_ASSETS",
        "NODEWRIGHT_REQUIRE_CONTROL_PLANE",
        "NODEWRIGHT_REQUIRE_SSHD",
        "XDG_CACHE_HOME",
    ] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    let assets = control_plane_folder();
    println!("cargo:rustc-env=NODEWRIGHT_CONTROL_PLANE_FOLDER={}", assets.display());
    watch("tests/control-plane");
    watch(assets.join("kube-apiserver"));
    let complete = ["etcd", "kube-apiserver", "kube-controller-manager"]
        .iter()
        .all(|program| assets.join(program).exists());
    if complete || required("NODEWRIGHT_REQUIRE_CONTROL_PLANE") {
        println!("cargo:rustc-cfg=control_plane");
    }
    watch("/usr/sbin");
    if Path::new("/usr/sbin/sshd").exists() || required("NODEWRIGHT_REQUIRE_SSHD") {
        println!("cargo:rustc-cfg=sshd");
    }
}

fn watch(path: impl AsRef<Path>) {
    let path = path.as_ref();
    if path.exists() {
        println!("cargo:rerun-if-changed={}", path.display());
    }
}

fn required(name: &str) -> bool {
    env::var(name).is_ok_and(|value| value == "1")
}

/// The folder that `tests/control-plane/build` writes to by default; a test compares the two.
fn control_plane_folder() -> PathBuf {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(folder) = set("KUBEBUILDER_ASSETS") {
        return folder;
    }
    let cache =
        set("XDG_CACHE_HOME").unwrap_or_else(|| set("HOME").unwrap_or_default().join(".cache"));
    cache.join("nodewright/control-plane").join(kubernetes_version())
}

/// Returns the version that the module file asks for, like `v1.36.5`.
fn kubernetes_version() -> String {
    let text = fs::read_to_string(MODULE_FILE)
        .unwrap_or_else(|error| panic!("{MODULE_FILE} cannot be read: {error}"));
    text.lines()
        .find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes v"))
        .and_then(|rest| rest.split_whitespace().next())
        .map(|version| format!("v{version}"))
        .unwrap_or_else(|| panic!("{MODULE_FILE} names no version of k8s.io/kubernetes"))
}
