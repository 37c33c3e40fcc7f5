//! The paths that a Rust file names, with groups in braces spelled out.

use super::source::Source;

/// A path and the line it begins on.
#[derive(Debug, PartialEq, Eq)]
pub struct Named {
    pub line: usize,
    pub segments: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Separator,
    Other(char),
}

/// Returns every path of two or more segments, and every single name that is imported.
pub fn paths(source: &Source) -> Vec<Named> {
    let tokens = tokens(&source.code);
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let (byte, token) = tokens[at];
        let begins = at == 0 || !matches!(tokens[at - 1].1, Token::Separator | Token::Other('.'));
        let leads = tokens.get(at + 1).is_some_and(|(_, next)| *next == Token::Separator);
        let imported = at > 0 && tokens[at - 1].1 == Token::Word("use");
        if matches!(token, Token::Word(_)) && begins && (leads || imported) {
            let mut trees = Vec::new();
            at = tree(&tokens, at, &mut Vec::new(), &mut trees);
            let line = source.line_of(byte);
            found.extend(trees.into_iter().map(|segments| Named { line, segments }));
        } else {
            at += 1;
        }
    }
    found
}

/// Reads one path, or one group of them, and returns where it ends.
fn tree(
    tokens: &[(usize, Token<'_>)],
    mut at: usize,
    prefix: &mut Vec<String>,
    found: &mut Vec<Vec<String>>,
) -> usize {
    let depth = prefix.len();
    while let Some((_, token)) = tokens.get(at) {
        match token {
            Token::Word(word) => prefix.push((*word).to_owned()),
            Token::Other('*') => prefix.push("*".to_owned()),
            Token::Other('{') => {
                at = group(tokens, at + 1, prefix, found);
                prefix.truncate(depth);
                return at;
            }
            Token::Separator | Token::Other(_) => break,
        }
        at += 1;
        if tokens.get(at).map(|(_, token)| *token) != Some(Token::Separator) {
            break;
        }
        at += 1;
    }
    if prefix.len() > depth {
        found.push(prefix.clone());
    }
    prefix.truncate(depth);
    at
}

fn group(
    tokens: &[(usize, Token<'_>)],
    mut at: usize,
    prefix: &mut Vec<String>,
    found: &mut Vec<Vec<String>>,
) -> usize {
    while let Some((_, token)) = tokens.get(at) {
        at = match token {
            Token::Other('}') => return at + 1,
            Token::Word("as") => at + 2,
            Token::Word(_) | Token::Other('*' | '{') => tree(tokens, at, prefix, found),
            Token::Separator | Token::Other(_) => at + 1,
        };
    }
    at
}

fn tokens(code: &str) -> Vec<(usize, Token<'_>)> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(letter) = code[at..].chars().next() {
        let word = code[at..].find(|other: char| !(other.is_alphanumeric() || other == '_'));
        let length = word.unwrap_or(code.len() - at);
        if length > 0 {
            tokens.push((at, Token::Word(&code[at..at + length])));
            at += length;
        } else if code[at..].starts_with("::") {
            tokens.push((at, Token::Separator));
            at += 2;
        } else {
            if !letter.is_whitespace() {
                tokens.push((at, Token::Other(letter)));
            }
            at += letter.len_utf8();
        }
    }
    tokens
}

#[test]
fn groups_are_spelled_out_and_methods_are_no_paths() {
    let text =
        "use a::{b, c::{d as e, self}, f::*};\nuse g;\nlet x = h::i::<j::K>(l.m());\n// n::o";
    let source = Source::new("src/x.rs", text);
    let found: Vec<String> = paths(&source)
        .into_iter()
        .map(|named| format!("{} {}", named.line, named.segments.join("::")))
        .collect();
    assert_eq!(
        found,
        ["1 a::b", "1 a::c::d", "1 a::c::self", "1 a::f::*", "2 g", "3 h::i", "3 j::K"]
    );
}
