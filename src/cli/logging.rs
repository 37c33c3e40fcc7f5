//! Log lines on standard error or in a file, as text or JSON.
//!
//! In: the format, the filter of `NODEWRIGHT_LOG`, the clock. Out: what the rooms log through
//! `tracing`. Times are those of our clock, so that a log agrees with annotations and status.
//! Must never: write to standard output, which belongs to the verb's answer.

use std::fmt;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use super::environment::Environment;
use crate::clock::Clock;

/// How a log line is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line, for collectors.
    Json,
}

/// Why nothing can be logged.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    /// The filter cannot be read.
    #[error("NODEWRIGHT_LOG={text:?} is not a filter of log lines")]
    Filter {
        /// The filter as given.
        text: String,
        /// Where it stops making sense.
        #[source]
        source: ParseError,
    },
}

/// The variable that holds the filter.
const FILTER: &str = "NODEWRIGHT_LOG";

/// Ours say what changed; other crates only what is wrong.
const FILTER_DEFAULT: &str = "warn,nodewright=info";

/// Writes the time of our clock.
#[derive(Debug, Clone, Copy)]
struct Time(Clock);

impl FormatTime for Time {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        write!(writer, "{:.3}", self.0.now())
    }
}

/// Starts logging for this process; the first call counts.
pub(super) fn start(
    format: LogFormat,
    environment: &Environment,
    clock: Clock,
) -> Result<(), LoggingError> {
    let filter = filter(environment)?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_timer(Time(clock));
    let started = match format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().flatten_event(true).with_current_span(false).try_init(),
    };
    if let Err(error) = started {
        // Only where somebody else in this process logs already: their choice holds.
        tracing::debug!(%error, "log was started before");
    }
    Ok(())
}

/// Starts logging into a file, as text, for a verb whose answer is for people and long.
pub(super) fn start_in_file(
    file: std::fs::File,
    environment: &Environment,
    clock: Clock,
) -> Result<(), LoggingError> {
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter(environment)?)
        .with_writer(std::sync::Arc::new(file))
        .with_ansi(false)
        .with_timer(Time(clock));
    if let Err(error) = lines.try_init() {
        // Only where somebody else in this process logs already: their choice holds.
        tracing::debug!(%error, "log was started before");
    }
    Ok(())
}

/// Returns which lines are logged.
fn filter(environment: &Environment) -> Result<EnvFilter, LoggingError> {
    let text = environment.get(FILTER).map_or(FILTER_DEFAULT.into(), |text| text.to_string_lossy());
    EnvFilter::try_new(&text)
        .map_err(|source| LoggingError::Filter { text: text.into_owned(), source })
}
