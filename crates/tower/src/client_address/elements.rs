//! A list header, last element first, in bounded work.

use http::{HeaderMap, HeaderName};

/// So many elements of a header are looked at, empty ones included.
pub(super) const MAX_ELEMENTS: usize = 64;
/// A longer element is garbage, and ends the reading: where it begins is not looked for.
pub(super) const MAX_ELEMENT_BYTES: usize = 512;

/// The elements of all lines of the header, as if they were one, from the right; empty ones are left out.
pub(super) fn from_right(
    headers: &HeaderMap,
    name: HeaderName,
    quoting: bool,
) -> impl Iterator<Item = &[u8]> {
    let lines = headers.get_all(name).iter().rev();
    lines
        .flat_map(move |line| Line { rest: Some(line.as_bytes()), quoting })
        .take(MAX_ELEMENTS)
        .map_while(|element| element)
        .map(<[u8]>::trim_ascii)
        .filter(|element| !element.is_empty())
}

/// What is left of a line. Gives `None` for an element that is too long.
struct Line<'a> {
    rest: Option<&'a [u8]>,
    quoting: bool,
}

impl<'a> Iterator for Line<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = self.rest.take()?;
        let nearest = line.len().saturating_sub(MAX_ELEMENT_BYTES + 1);
        let Some(comma) = last_comma(line, nearest, self.quoting) else {
            return Some((line.len() <= MAX_ELEMENT_BYTES).then_some(line));
        };
        self.rest = Some(&line[..comma]);
        Some(Some(&line[comma + 1..]))
    }
}

/// The last comma at `nearest` or later, outside of quotes.
///
/// Read from the right, because an open quote that the client sent must not reach what a proxy appended.
fn last_comma(line: &[u8], nearest: usize, quoting: bool) -> Option<usize> {
    let mut inside = false;
    for at in (nearest..line.len()).rev() {
        match line[at] {
            b'"' if quoting && !is_escaped(line, at, nearest) => inside = !inside,
            b',' if !inside => return Some(at),
            _ => {}
        }
    }
    None
}

/// An odd number of backslashes stands before it.
fn is_escaped(line: &[u8], at: usize, nearest: usize) -> bool {
    line[nearest..at].iter().rev().take_while(|&&byte| byte == b'\\').count() % 2 == 1
}
