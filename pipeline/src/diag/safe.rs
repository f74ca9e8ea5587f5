//! Text of a file or a name for output: without characters that a terminal interprets.
//!
//! Names and source lines come from files of other authors. An escape sequence in them would move the cursor or set a
//! title, and a character that reorders text would show a program other than the one that is loaded.

use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// True for a character that has another effect than to print itself: the controls of C0 and C1 but line feed and tab,
/// and the characters that reorder or break lines of text.
pub fn is_control(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{feff}' => true,
        '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        other => other.is_control(),
    }
}

/// The text with every such character as `\u{1b}`.
pub fn escape(text: &str) -> Cow<'_, str> {
    // Nearly every text is plain ASCII.
    let is_plain = |byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    if text.bytes().all(is_plain) || !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_control(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// The name of a file for messages: bytes that are not UTF-8 as `\xff`, so that two names never look alike.
pub fn shown(path: &Path) -> Cow<'_, str> {
    if let Some(text) = path.to_str() {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        out.push_str(chunk.valid());
        chunk.invalid().iter().for_each(|byte| out.push_str(&format!("\\x{byte:02x}")));
    }
    Cow::Owned(out)
}

/// JSON with every such character as `\u001b`: the standard requires that only for those below a space. They occur only
/// in strings.
pub fn escape_json(json: &str) -> Cow<'_, str> {
    let is_control = |c| c != '\r' && is_control(c);
    if !json.contains(is_control) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_control(c) {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// The text with each replaced by another character of the same length, so that spans stay valid.
pub(super) fn masked(text: &str) -> Cow<'_, str> {
    // The renderer replaces C0 by their symbols.
    let is_masked = |c: char| is_control(c) && !c.is_ascii();
    if !text.contains(is_masked) {
        return Cow::Borrowed(text);
    }
    let mask = |c: char| match c.len_utf8() {
        _ if !is_masked(c) => c,
        2 => '\u{b7}',
        _ => char::REPLACEMENT_CHARACTER,
    };
    Cow::Owned(text.chars().map(mask).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_name_that_are_no_text_are_shown() {
        use std::ffi::OsStr;
        let name = |bytes| shown(Path::new(OsStr::from_bytes(bytes))).into_owned();
        assert_eq!(name(b"gr\xc3\xbcn.p4"), "gr\u{fc}n.p4");
        assert_eq!(name(b"a\xff\xfe/b\xc3.p4"), "a\\xff\\xfe/b\\xc3.p4");
    }

    #[test]
    fn controls_are_shown_and_text_is_left_alone() {
        assert!(matches!(escape("gr\u{fc}n\tzwei\n"), Cow::Borrowed(_)));
        assert_eq!(escape("a\u{1b}[31mb\r"), "a\\u{1b}[31mb\\u{d}");
        assert_eq!(
            escape("\u{9b}2J\u{202e}x\u{2066}\u{85}"),
            "\\u{9b}2J\\u{202e}x\\u{2066}\\u{85}"
        );
        assert_eq!(escape_json("\"\u{9b}\u{202e}\"\n"), "\"\\u009b\\u202e\"\n");
        let text = "a\u{9b}b\u{202e}c\u{1b}";
        assert_eq!(masked(text).len(), text.len());
        assert!(!masked(text).contains(['\u{9b}', '\u{202e}']));
    }
}
