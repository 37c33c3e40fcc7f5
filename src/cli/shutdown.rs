//! When this process is asked to end.

use tokio::signal::unix::{SignalKind, signal};

/// Returns a future that is done at the first SIGTERM or SIGINT.
///
/// The kubelet sends the one, a terminal the other. A second one of either is left to end the
/// process at once: whoever asks twice does not want to wait.
///
/// # Errors
/// The system has no room for the signal handlers.
pub(super) fn requested() -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stop requested, ending what is in progress");
        drop(tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            tracing::warn!("stop requested again, ending at once");
            std::process::exit(i32::from(STOPPED_EXIT_CODE));
        }));
    })
}

/// What a shell reports for a process that SIGINT ended.
pub(super) const STOPPED_EXIT_CODE: u8 = 130;
