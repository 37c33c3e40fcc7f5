//! How long files and lines may be; the length of functions is clippy's (`too_many_lines`).

use super::assert_tidy;
use super::source::{Source, rust_files};

/// A file that one sitting reads.
const LINES_MAX: usize = 500;

/// As in `.rustfmt.toml`, which leaves strings and comments alone.
const COLUMNS_MAX: usize = 100;

fn complaints(source: &Source) -> Vec<String> {
    let mut complaints = Vec::new();
    let lines = source.text.lines().count();
    if lines > LINES_MAX {
        let text = format!("{lines} lines, at most {LINES_MAX}: split it by what it is about");
        complaints.push(source.complain(lines, &text));
    }
    let mut byte = 0;
    for (index, line) in source.text.split('\n').enumerate() {
        // A golden text is as it must be; so is a word, such as a digest in a string.
        let golden = source.raw.iter().any(|raw| raw.contains(&byte)) || line.contains("@\"");
        byte += line.len() + 1;
        let columns = line.chars().count();
        let longest = line.split_whitespace().map(|word| word.chars().count()).max().unwrap_or(0);
        if columns > COLUMNS_MAX && !golden && longest <= COLUMNS_MAX / 2 {
            let text = format!("{columns} columns, at most {COLUMNS_MAX}");
            complaints.push(source.complain(index + 1, &text));
        }
    }
    complaints
}

#[test]
fn files_and_lines_are_short() {
    let found: Vec<String> = rust_files().iter().flat_map(complaints).collect();
    assert_tidy(&found, "Files and lines are kept short enough to read.");
}

#[test]
fn long_files_and_lines_are_found() {
    let long = "//! x\n".repeat(LINES_MAX + 1);
    assert_eq!(complaints(&Source::new("src/x.rs", &long)).len(), 1);
    assert_eq!(complaints(&Source::new("src/x.rs", &long[6..])), Vec::<String>::new());
    let wide = format!("// {}", "word ".repeat(20));
    assert_eq!(
        complaints(&Source::new("src/x.rs", &wide)),
        ["src/x.rs:1: 103 columns, at most 100"]
    );
    let golden = format!("let text = r\"\n{wide}\n\";");
    assert_eq!(complaints(&Source::new("src/x.rs", &golden)), Vec::<String>::new());
    let opens = format!("let text = r\"{wide}\n\";");
    assert_eq!(complaints(&Source::new("src/x.rs", &opens)).len(), 1);
    let unbreakable = format!("const DIGEST: &str = \"{}\";", "f".repeat(128));
    assert_eq!(complaints(&Source::new("src/x.rs", &unbreakable)), Vec::<String>::new());
}
