//! Finds the word that somebody probably meant.

/// Returns the known word nearest to `word`, if it is near enough to be a slip.
pub fn suggest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    const WORD_MAX_CHARACTERS: usize = 64;
    let typed: Vec<char> = word.to_lowercase().chars().take(WORD_MAX_CHARACTERS).collect();
    let slips_max = match typed.len() {
        0..=2 => 0,
        3..=5 => 1,
        6..=11 => 2,
        _ => 3,
    };
    known
        .iter()
        .map(|candidate| (distance(&typed, candidate), *candidate))
        .filter(|(slips, candidate)| *slips <= slips_max || is_plural(&typed, candidate))
        .min()
        .map(|(_, candidate)| candidate)
}

fn is_plural(typed: &[char], candidate: &str) -> bool {
    let typed: String = typed.iter().collect();
    let candidate = candidate.to_lowercase();
    typed.strip_suffix('s') == Some(&candidate) || candidate.strip_suffix('s') == Some(&typed)
}

/// Returns how many letters must be added, removed, replaced or swapped with their neighbour.
fn distance(typed: &[char], candidate: &str) -> usize {
    let meant: Vec<char> = candidate.to_lowercase().chars().collect();
    let width = meant.len() + 1;
    let mut before: Vec<usize> = vec![0; width];
    let mut last: Vec<usize> = (0..width).collect();
    for (row, letter) in typed.iter().enumerate() {
        let mut current = vec![row + 1; width];
        for (column, other) in meant.iter().enumerate() {
            let replaced = last[column] + usize::from(letter != other);
            let mut best = replaced.min(last[column + 1] + 1).min(current[column] + 1);
            let is_swap =
                row > 0 && column > 0 && typed[row - 1] == *other && meant[column - 1] == *letter;
            if is_swap {
                best = best.min(before[column - 1] + 1);
            }
            current[column + 1] = best;
        }
        before = last;
        last = current;
    }
    last[width - 1]
}
