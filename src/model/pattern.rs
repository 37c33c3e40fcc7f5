//! Patterns of `configInterrupts`: those of Go's `filepath.Match`, which upstream uses.
//!
//! In: a pattern and the key of a config map. Out: whether it matches.
//! Must never: let `*` or `?` match a slash, or take a damaged pattern for one that matches.

/// One piece of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Term {
    /// `*`: any number of characters, none of them a slash.
    Many,
    /// `?`: one character that is no slash.
    One,
    /// `[a-z]` or `[^a-z]`: one character in, or not in, these ranges.
    Class { negated: bool, ranges: Vec<(char, char)> },
    /// A character itself, also one behind a backslash.
    Just(char),
}

/// A pattern that can be matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    terms: Vec<Term>,
}

impl Pattern {
    /// Reads a pattern; `None` where Go reports `ErrBadPattern`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut left = text.chars().peekable();
        let mut terms = Vec::new();
        while let Some(character) = left.next() {
            terms.push(match character {
                '*' => Term::Many,
                '?' => Term::One,
                '[' => class(&mut left)?,
                '\\' => Term::Just(left.next()?),
                character => Term::Just(character),
            });
        }
        Some(Self { terms })
    }

    /// Returns whether the whole key matches.
    pub fn matches(&self, key: &str) -> bool {
        let key: Vec<char> = key.chars().collect();
        let (mut at, mut term) = (0, 0);
        // Where to go on when a later term does not match: the last `*`, one character further.
        let mut retry: Option<(usize, usize)> = None;
        while at < key.len() || term < self.terms.len() {
            match (self.terms.get(term), key.get(at)) {
                (Some(Term::Many), _) => {
                    retry = Some((term, at));
                    term += 1;
                    continue;
                }
                (Some(one), Some(character)) if one.matches(*character) => {
                    (at, term) = (at + 1, term + 1);
                    continue;
                }
                (Some(_) | None, Some(_) | None) => {}
            }
            let Some((star, taken)) = retry else { return false };
            if key.get(taken).is_none_or(|character| *character == '/') {
                return false;
            }
            retry = Some((star, taken + 1));
            (term, at) = (star + 1, taken + 1);
        }
        true
    }
}

impl Term {
    /// Returns whether one character matches; `*` is no single character's matter.
    fn matches(&self, character: char) -> bool {
        match self {
            Self::Many => false,
            Self::One => character != '/',
            Self::Class { negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&character)) != *negated
            }
            Self::Just(just) => *just == character,
        }
    }
}

/// Reads a class behind its opening bracket.
fn class(left: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<Term> {
    let negated = left.next_if_eq(&'^').is_some();
    let mut ranges = Vec::new();
    loop {
        if !ranges.is_empty() && left.next_if_eq(&']').is_some() {
            return Some(Term::Class { negated, ranges });
        }
        let low = in_class(left)?;
        let high = if left.next_if_eq(&'-').is_some() { in_class(left)? } else { low };
        ranges.push((low, high));
    }
}

/// Reads a character of a class, also one behind a backslash.
fn in_class(left: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<char> {
    match left.next()? {
        '-' | ']' => None,
        '\\' => left.next(),
        character => Some(character),
    }
}
