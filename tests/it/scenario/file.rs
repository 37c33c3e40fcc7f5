//! The text of a scenario: purpose, steps, and what each step prints.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const COMMAND: &str = "> ";
const INPUT: &str = "| ";

/// One file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scenario {
    path: PathBuf,
    /// The lines before the first command, as they are.
    purpose: String,
    pub steps: Vec<Step>,
}

/// One command with its input and output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Where the command is, from 1.
    pub line: usize,
    /// Without the mark.
    pub command: String,
    /// Without the marks, one line each; a final newline where there is any.
    pub input: String,
    /// What it printed, one line each, without empty lines.
    pub output: Vec<String>,
    /// Comments and empty lines above the command, as they are.
    above: String,
}

/// Returns all scenarios, by name; with `NODEWRIGHT_SCENARIO` those that it matches.
#[expect(clippy::disallowed_methods, reason = "a switch of the suite; tests have no flags")]
pub fn all() -> Vec<Scenario> {
    let which = std::env::var("NODEWRIGHT_SCENARIO").unwrap_or_else(|_| "*".to_owned());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let folder = folder.to_str().expect("a path as text");
    let patterns = which.split(',').map(|which| format!("{folder}/{which}.txt"));
    let paths = patterns.flat_map(|it| glob::glob(&it).expect("a valid pattern"));
    paths.map(|path| Scenario::read(&path.expect("a readable folder"))).collect()
}

/// Returns whether transcripts are to be written instead of compared.
#[expect(clippy::disallowed_methods, reason = "a switch of the suite; tests have no flags")]
pub fn is_blessing() -> bool {
    std::env::var("NODEWRIGHT_BLESS").is_ok_and(|value| value == "1")
}

impl Scenario {
    pub fn name(&self) -> String {
        self.path.file_stem().expect("a file").to_string_lossy().into_owned()
    }

    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).expect("a readable scenario");
        let scenario = Self::parse(path, &text);
        let name = scenario.name();
        assert!(scenario.purpose.starts_with("# "), "{name}: it says no purpose");
        assert!(!scenario.steps.is_empty(), "{name}: it does nothing");
        assert_eq!(scenario.text(), text, "{name}: not in the form that blessing writes");
        scenario
    }

    fn parse(path: &Path, text: &str) -> Self {
        let (mut purpose, mut above) = (String::new(), String::new());
        let mut steps: Vec<Step> = Vec::new();
        for (line, content) in (1..).zip(text.lines()) {
            let is_comment = content.is_empty() || content.starts_with('#');
            if let Some(command) = content.strip_prefix(COMMAND) {
                let above = std::mem::take(&mut above);
                let command = command.to_owned();
                steps.push(Step { line, command, input: String::new(), output: vec![], above });
            } else if let Some(step) = steps.last_mut().filter(|_| !is_comment) {
                match content.strip_prefix(INPUT) {
                    Some(input) => step.input += &format!("{input}\n"),
                    None => step.output.push(content.to_owned()),
                }
            } else if steps.is_empty() {
                purpose += &format!("{content}\n");
            } else {
                above += &format!("{content}\n");
            }
        }
        Self { path: path.to_owned(), purpose, steps }
    }

    fn text(&self) -> String {
        let mut text = self.purpose.clone();
        for Step { line: _, command, input, output, above } in &self.steps {
            text += above;
            let input = input.lines().map(|line| format!("{INPUT}{line}\n")).collect::<String>();
            write!(text, "{COMMAND}{command}\n{input}").expect("text grows");
            output.iter().for_each(|line| text += &format!("{line}\n"));
        }
        text
    }

    pub fn save(&self) {
        std::fs::write(&self.path, self.text()).expect("the scenario is writable");
    }

    /// Returns which steps print something else than another run did.
    pub fn difference(&self, played: &Self) -> String {
        let mut text = String::new();
        for (wanted, found) in self.steps.iter().zip(&played.steps) {
            if wanted.output != found.output {
                let name = self.path.file_name().expect("a file").display();
                writeln!(text, "{name}:{}: > {}", wanted.line, wanted.command).expect("grows");
                let lost = wanted.output.iter().filter(|line| !found.output.contains(line));
                let new = found.output.iter().filter(|line| !wanted.output.contains(line));
                lost.for_each(|line| text += &format!("  - {line}\n"));
                new.for_each(|line| text += &format!("  + {line}\n"));
            }
        }
        text
    }
}

#[test]
fn a_file_is_read_and_written_as_it_is() {
    let text = "# Why.\n\n> write a\n| x: 1\n| \n| y\n# Then.\n\n> push\npushed\nall of it\n";
    let scenario = Scenario::parse(Path::new("a.txt"), text);
    assert_eq!(scenario.text(), text);
    let [write, push] = &scenario.steps[..] else { panic!("two steps") };
    assert_eq!((write.command.as_str(), write.input.as_str()), ("write a", "x: 1\n\ny\n"));
    assert_eq!(
        (push.line, &push.output[..]),
        (9, &["pushed".to_owned(), "all of it".to_owned()][..])
    );
}

#[test]
fn a_difference_names_place_command_and_lines() {
    let scenario = Scenario::parse(Path::new("a.txt"), "# Why.\n> show nodes\none\ntwo\n");
    let mut played = scenario.clone();
    assert_eq!(scenario.difference(&played), "");
    played.steps[0].output[1] = "three".to_owned();
    assert_eq!(scenario.difference(&played), "a.txt:2: > show nodes\n  - two\n  + three\n");
}
