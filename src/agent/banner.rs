//! The start-up banner, line by line as upstream's tests match it (contract E.3).

use super::error::AgentError;
use super::output::Output;
use super::python;
use super::request::{Request, ResourceId, Settings};

/// Prints the banner.
///
/// The folders named are those of the package name in the resource id. Without a resource id, as
/// when a package author runs the agent by hand, they are left out.
pub(super) fn print(
    request: &Request,
    settings: &Settings,
    out: &mut Output<'_>,
) -> Result<(), AgentError> {
    let Request { mode, root, copy_dir, interrupt } = request;
    let Settings {
        resource_id,
        container_package,
        state_folder,
        log_folder,
        buffer_limit,
        writes_logs,
        always_runs_steps,
        copies_resolver,
    } = settings;
    out.line("--------------------");
    out.line("--CLI CONFIGURATION-");
    out.line(format_args!("mode: {mode}"));
    out.line(format_args!("root_mount: {}", root.display()));
    out.line(format_args!("copy_dir: {}", copy_dir.display()));
    out.line(format_args!("interrupt_data: {}", interrupt.as_deref().unwrap_or("None")));
    out.line(format_args!("always_run_step: {}", python::boolean(*always_runs_steps)));
    out.line("--ENV CONFIGURATION-");
    out.line(format_args!("COPY_RESOLV: {}", python::boolean(*copies_resolver)));
    out.line(format_args!("OVERLAY_ALWAYS_RUN_STEP: {}", python::boolean(*always_runs_steps)));
    out.line(format_args!("SKYHOOK_RESOURCE_ID: {resource_id}"));
    out.line(format_args!("SKYHOOK_DATA_DIR: {}", container_package.display()));
    out.line(format_args!("SKYHOOK_ROOT_DIR: {}", state_folder.display()));
    out.line(format_args!("SKYHOOK_LOG_DIR: {}", log_folder.display()));
    out.line(format_args!("SKYHOOK_AGENT_BUFFER_LIMIT: {buffer_limit}"));
    out.line(format_args!("SKYHOOK_AGENT_WRITE_LOGS: {}", python::boolean(*writes_logs)));
    if !resource_id.is_empty() {
        let ResourceId { resource: _, package, version } = ResourceId::parse(resource_id)?;
        let flags = state_folder.join("flags").join(&package).join(&version);
        let history = state_folder.join("history").join(format!("{package}.json"));
        out.line("Directory CONFIGURATION");
        out.line(format_args!("flag_dir: {}", flags.display()));
        out.line(format_args!("log_dir: {}", log_folder.join(&package).join(&version).display()));
        out.line(format_args!("history_file: {}", history.display()));
    }
    out.line("--------------------");
    Ok(())
}
