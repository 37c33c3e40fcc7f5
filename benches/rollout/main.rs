//! How long a rollout takes on a real kube-apiserver and etcd, and what it costs.
//!
//! `cargo bench --bench rollout` measures the rollouts that upstream's operator was measured with,
//! one after another, and prints each as soon as it is over and all of them as a table at the end;
//! `-- --help` says how to choose others. Needs the programs that `tests/control-plane/build`
//! makes. Nothing is left behind, also after Ctrl-C.

mod fleet;
#[expect(dead_code, unused_imports, reason = "the tests use more of it")]
#[path = "../../tests/it/control_plane/plane/mod.rs"]
mod plane;
mod report;
mod repository;
mod requests;
mod rows;
mod upstream;
mod usage;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;

use fleet::BenchError;
use rows::Arguments;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime.expect("a runtime").block_on(measure_all(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("rollout: {}", plane::with_causes(&error)));
            ExitCode::FAILURE
        }
    }
}

/// Measures row after row; what was measured before an error is shown all the same.
async fn measure_all(arguments: &Arguments) -> Result<(), BenchError> {
    say(&report::preface());
    let mut table = vec![report::table_head().to_owned()];
    let mut outcome = Ok(());
    for row in arguments.rows() {
        match fleet::measure(&row, arguments.logs.as_deref()).await {
            Ok(measured) => {
                say(&report::paragraph(&row, &measured));
                table.push(report::table_row(&row, &measured));
            }
            Err(error) => {
                say(&format!("{row}: not measured\n"));
                outcome = Err(error);
                break;
            }
        }
    }
    if table.len() > 1 {
        say(&table.join("\n"));
    }
    outcome
}

fn say(text: &str) {
    let mut output = std::io::stdout();
    let written = writeln!(output, "{text}").and_then(|()| output.flush());
    written.expect("the output is open");
}
