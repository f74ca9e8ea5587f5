//! Texts that are nearly right: one of many, with words, lines and blocks taken out, doubled, moved and exchanged.

/// The first byte of an input that is a text itself.
pub const RAW: u8 = 0xff;
/// Changes of a text, at most.
const CHANGES_MAX: usize = 24;
/// Bytes of a text, at most: blocks that are doubled again and again grow.
const BYTES_MAX: usize = 64 << 10;

/// Values that are often the edge of something.
const EDGES: [&str; 20] = [
    "0",
    "1",
    "-1",
    "65535",
    "65536",
    "4294967296",
    "18446744073709551616",
    "0xffffffffffffffffffffffffffffffff",
    "1e999",
    "''",
    "[]",
    "{}",
    "null",
    "~",
    "*x",
    "&x",
    "!!binary",
    "\u{202e}",
    "0b",
    "{ a: { a: { a: [] } } }",
];

/// Bytes as decisions; zeros when there are no more.
#[derive(Debug)]
pub struct Decisions<'a>(&'a [u8]);

impl<'a> Decisions<'a> {
    /// The decisions of an input.
    pub fn new(data: &'a [u8]) -> Decisions<'a> {
        Decisions(data)
    }

    /// Are there any more?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte, if there is one.
    pub fn next_byte(&mut self) -> Option<u8> {
        self.0.split_off_first().copied()
    }

    /// The next byte, or 0.
    pub fn byte(&mut self) -> u8 {
        self.next_byte().unwrap_or(0)
    }

    /// A number below `n`, of the next two bytes.
    pub fn below(&mut self, n: usize) -> usize {
        (usize::from(self.byte()) << 8 | usize::from(self.byte())) % n.max(1)
    }

    /// What is left.
    pub fn rest(self) -> &'a [u8] {
        self.0
    }
}

/// Which of so many texts an input begins from; `None`: it is a text itself.
pub fn base(data: &[u8], texts: usize) -> Option<usize> {
    (data.first() != Some(&RAW)).then(|| Decisions::new(data).below(texts))
}

/// The text of an input, made of these.
pub fn text(data: &[u8], texts: &[String]) -> String {
    if let Some((&RAW, raw)) = data.split_first() {
        return String::from_utf8_lossy(raw).into_owned();
    }
    let mut decisions = Decisions::new(data);
    let mut text = texts[decisions.below(texts.len())].clone();
    for _ in 0..CHANGES_MAX {
        if decisions.is_empty() {
            break;
        }
        text = match decisions.byte() % 3 {
            2 => lines(&text, &mut decisions, texts),
            _ => words(&text, &mut decisions, texts),
        };
        let most = (0..=BYTES_MAX.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(most.unwrap_or(0));
    }
    text
}

/// Words, and what is between them: each punctuation mark and blank by itself.
fn split(text: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = match rest.find(|c: char| !is_word(c)) {
            Some(0) => first.len_utf8(),
            Some(end) => end,
            None => rest.len(),
        };
        let (part, behind) = rest.split_at(end);
        parts.push(part);
        rest = behind;
    }
    parts
}

/// A word or mark that is another one, twice there, gone, or exchanged with another place's.
fn words(text: &str, decisions: &mut Decisions<'_>, texts: &[String]) -> String {
    let foreign;
    let mut parts = split(text);
    if parts.is_empty() {
        return text.to_owned();
    }
    let (at, other) = (decisions.below(parts.len()), decisions.below(parts.len()));
    match decisions.byte() % 8 {
        0 => {
            parts.remove(at);
        }
        1 => parts.insert(at, parts[other]),
        2 | 3 => parts[at] = parts[other],
        4 => parts.swap(at, other),
        5 | 6 => parts[at] = EDGES[decisions.below(EDGES.len())],
        _ => {
            foreign = texts[decisions.below(texts.len())].clone();
            let from = split(&foreign);
            parts[at] = from.get(other % from.len().max(1)).copied().unwrap_or("");
            return parts.concat();
        }
    }
    parts.concat()
}

/// A line with the deeper lines behind it: gone, twice there, or at another place, here or from another text.
fn lines(text: &str, decisions: &mut Decisions<'_>, texts: &[String]) -> String {
    let own: Vec<&str> = text.lines().collect();
    let foreign: Vec<&str> = texts[decisions.below(texts.len())].lines().collect();
    if own.is_empty() || foreign.is_empty() {
        return text.to_owned();
    }
    let depth = |line: &str| line.len() - line.trim_start().len();
    let block = |lines: &[&str], at: usize| {
        let deeper = lines[at + 1..].iter().take_while(|line| depth(line) > depth(lines[at]));
        at..at + 1 + deeper.count()
    };
    let at = block(&own, decisions.below(own.len()));
    let mut out = own.clone();
    match decisions.byte() % 4 {
        0 => drop(out.drain(at)),
        1 => {
            let to = decisions.below(own.len());
            out.splice(to..to, own[at].iter().copied());
        }
        2 => {
            let moved: Vec<&str> = out.drain(at).collect();
            let to = decisions.below(out.len() + 1);
            out.splice(to..to, moved);
        }
        _ => {
            let from = block(&foreign, decisions.below(foreign.len()));
            out.splice(at, foreign[from].iter().copied());
        }
    }
    out.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_change_texts_and_may_be_texts() {
        let texts = ["a: 1\nb:\n  c: 2\nd: 3\n".to_owned()];
        assert_eq!(text(&[0, 0], &texts), texts[0]);
        assert_eq!(text(b"\xffx: [", &texts), "x: [");
        // A change by lines; no foreign text but this; the block at line 1; out.
        assert_eq!(text(&[0, 0, 2, 0, 0, 0, 1, 0], &texts), "a: 1\nd: 3\n");
        assert_eq!(split("ab_1: -x").concat(), "ab_1: -x");
        assert_eq!(split("ab_1: -x").len(), 5);
    }
}
