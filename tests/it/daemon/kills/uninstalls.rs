//! Uninstalls: a package is taken out of the manifest, or its whole resource is deleted.

use super::super::package;
use super::{Asked, Story};

/// Reboots when it comes and when it goes, each time after a drain; sysctl is only put there.
fn with_kernel() -> String {
    let rest = "interrupt:\n  type: reboot\nuninstall:\n  enabled: true";
    format!("{}{}", package("kernel", "1.0.0", rest), package("sysctl", "1.0.0", ""))
}

/// Taken off with the configuration it was put there with, and one reboot more for that.
#[tokio::test(start_paused = true)]
async fn killed_after_any_request_of_an_uninstall_with_a_reboot() {
    let asked = Asked::Packages(package("sysctl", "1.0.0", ""));
    Story { nodes: 1, before: Some(with_kernel()), asked, reboots: 2, step: 5 }.play().await;
}

/// The package goes by itself where it runs nothing that needs the node for itself.
#[tokio::test(start_paused = true)]
async fn killed_in_an_uninstall_without_an_interrupt_on_two_nodes() {
    let motd = package("motd", "1.0.0", "uninstall:\n  enabled: true");
    let sysctl = package("sysctl", "1.0.0", "");
    let before = Some(format!("{motd}{sysctl}"));
    let asked = Asked::Packages(sysctl);
    Story { nodes: 2, before, asked, reboots: 0, step: 9 }.play().await;
}

/// The finalizer goes last: whatever is killed before, the next daemon finds what is to be done.
#[tokio::test(start_paused = true)]
async fn killed_after_any_request_of_a_deletion_with_a_package_to_uninstall() {
    let asked = Asked::Deletion;
    Story { nodes: 1, before: Some(with_kernel()), asked, reboots: 2, step: 5 }.play().await;
}
