//! The table of codes: the only place where one is defined.
//!
//! `E` is an error, `W` a warning. A line here defines the constant and the row of `explain`; it requires a page of
//! its name in `explain` (compiled in) and a bad program in `tests/data/errors/` (a test). E0001 to E0099 are the front
//! end's, E0100 and W0100 onwards the checker's. A code keeps its meaning for ever; a retired one is not reused.

use super::Severity;

/// A code, its name and its explanation.
#[derive(Clone, Copy)]
pub struct Code {
    /// `E0008`.
    pub id: &'static str,
    /// One line: its general meaning.
    pub summary: &'static str,
    /// The page, in Markdown: the meaning, a bad example, the good one.
    pub page: &'static str,
}

impl Code {
    /// Error or warning, by the letter.
    pub fn severity(self) -> Severity {
        if self.id.starts_with('W') { Severity::Warning } else { Severity::Error }
    }

    /// The code with this id, in any case: `e0008`.
    pub fn find(id: &str) -> Option<Code> {
        ALL.iter().copied().find(|code| code.id.eq_ignore_ascii_case(id))
    }
}

impl PartialEq for Code {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Code {}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.id)
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.id)
    }
}

/// Defines a constant for each code, and the list of all.
macro_rules! codes {
    ($($name:ident = $id:literal, $summary:literal;)*) => {
        $(
            #[doc = $summary]
            pub const $name: Code = Code {
                id: $id,
                summary: $summary,
                page: include_str!(concat!("../explain/", $id, ".md")),
            };
        )*
        /// Every code, by id.
        pub const ALL: &[Code] = &[$($name),*];
    };
}

codes! {
    YAML_SYNTAX = "E0001", "the file is not valid YAML";
    FILE_NOT_READ = "E0002", "a file cannot be read";
    INCLUDE_NOT_FOUND = "E0003", "an included library was not found";
    INCLUDE_CIRCLE = "E0004", "libraries include each other in a circle";
    LIMIT = "E0005", "the input is larger than a limit of the language";
    NOT_UTF8 = "E0006", "a file is not UTF-8 text";
    DUPLICATE_KEY = "E0007", "the same key is written twice";
    UNKNOWN_KEY = "E0008", "a key that the language does not know";
    MISSING_KEY = "E0009", "a key that is needed is not there";
    WRONG_TYPE = "E0010", "a value of the wrong type";
    YAML_TAG = "E0011", "an unquoted value that YAML reads as a tag";
    SEVERAL_DOCUMENTS = "E0012", "more than one YAML document in a file";
    SYNTAX = "E0013", "an expression, statement or pattern that cannot be read";
    BAD_NUMBER = "E0014", "a number or address that cannot be read";
    BAD_NAME = "E0015", "something that is not a name";
    UNKNOWN_CHOICE = "E0016", "a word that is not one of the choices";
    NEEDS_QUOTES = "E0017", "an unquoted expression that YAML reads as something else";
    ALIAS = "E0018", "a YAML alias or merge that cannot be used";
    UNKNOWN_STATEMENT = "E0019", "a map that is no statement";
    CONFLICTING_KEYS = "E0020", "keys that exclude each other";
    NOT_IN_LIBRARY = "E0021", "a key that only a program may have, in a library";
    P4_SYNTAX = "E0022", "P4 text that cannot be read";
    P4_PREPROCESSOR = "E0023", "a preprocessor line that cannot be followed";
    P4_TYPE = "E0024", "P4 types that do not fit";
    P4_UNSUPPORTED = "E0025", "something of P4 that is not supported";
    BMV2_JSON = "E0026", "JSON of bmv2 that cannot be read";
    UNKNOWN = "E0100", "a name that is not declared";
    TWICE = "E0101", "something declared or listed twice";
    RESERVED = "E0102", "a word of the language used as a name";
    WRONG_KIND = "E0103", "a name of the wrong kind";
    NO_MEMBER = "E0104", "a field, cell or member that is not there";
    CONST_CYCLE = "E0105", "a constant or type that is defined by itself";
    NOT_CONSTANT = "E0106", "a constant is needed and the value is only known for each packet";
    CONST_RANGE = "E0107", "a constant beyond 128 bits, or divided by 0";
    NEEDS_WIDTH = "E0108", "a number whose width nothing tells";
    WIDTHS = "E0109", "widths that do not agree";
    DOES_NOT_FIT = "E0110", "a number that does not fit in its width";
    NOT_BOOLEAN = "E0111", "a condition that is not one bit";
    BAD_SLICE = "E0112", "a slice outside its value";
    BAD_WIDTH = "E0113", "a width that is not possible";
    SIGNED = "E0114", "a signed value where none can be";
    BAD_INDEX = "E0115", "an index outside an array or stack";
    TOO_DEEP = "E0116", "code that is nested too deep, or too much of it";
    EFFECT = "E0117", "something with an effect inside an expression";
    ARGUMENTS = "E0118", "arguments that do not fit";
    NOT_ASSIGNABLE = "E0119", "something that cannot be assigned";
    WRONG_PLACE = "E0120", "something that does not belong here";
    BAD_LAYOUT = "E0121", "a field that cannot lie where it is put";
    HEADER_SIZE = "E0122", "a header of impossible size";
    LIMITS = "E0123", "more than a program may have";
    CARRIED = "E0124", "more metadata than crosses the queue";
    RECURSION = "E0125", "code that calls itself";
    NO_START = "E0126", "a parser without the state start";
    NO_PROGRESS = "E0127", "a loop of parser states that may not move the cursor";
    BAD_PATTERN = "E0128", "a pattern that cannot match";
    DUPLICATE_CASE = "E0129", "a duplicate case";
    TWO_LPM = "E0130", "a table with two lpm keys";
    NOT_LISTED = "E0131", "an action that the table does not list";
    ENTRY = "E0132", "an entry that does not fit its table";
    TOO_MANY_ENTRIES = "E0133", "more entries than fit";
    PRIORITY = "E0134", "a priority where there is none, or none where there is one";
    SELECTOR = "E0135", "a selector that is not complete";
    NOT_EMITTED = "E0136", "a header that the deparser forgets";
    COVER_FIELD = "E0137", "a field that cannot hold a checksum or CRC";
    COVER = "E0138", "something that a checksum or CRC cannot cover";
    CRC_PARAMS = "E0139", "CRC parameters that make no CRC";
    ACCESS = "E0140", "intrinsic metadata used where it is not known";
    METER = "E0141", "meter rates that do not fit their meter";
    STATE = "E0142", "more state than is allowed";
    CANNOT_LEARN = "E0150", "a table that packets cannot insert entries into";
    SCENARIO = "E0200", "a scenario that cannot be run";
    RATE_CONTROL = "E0210", "a rate control that cannot be run";
    UNREACHABLE_CODE = "W0100", "a statement that is never reached";
    UNREACHABLE_STATE = "W0101", "a parser state that is never reached";
    NEVER_VALID = "W0102", "a header that nothing makes valid";
    INVALID_HERE = "W0103", "a header that cannot be valid at this place";
    EXTRACTED_TWICE = "W0104", "a header that is extracted over itself";
    COVERED_CASE = "W0105", "a case that never matches";
    UNUSED = "W0106", "something declared that nothing uses";
    NOT_CARRIED = "W0107", "metadata that is always zero in egress";
    COPIES_ITSELF = "W0108", "egress that copies its own copies, or sends every packet round";
    STALE_CHECKSUM = "W0109", "a header field that changes while its checksum stays";
    EMPTY_GROUP = "W0110", "a group without members";
    NOT_RUN_HERE = "W0111", "right P4-16 that does not run here";
    NUMBER_CUT = "W0112", "a number that its type cannot hold";
    NO_TRANSITION = "W0113", "a parser state without a transition";
    NO_ORDER = "W0114", "headers that are extracted in more than one order";
    ALWAYS_ZERO = "W0115", "standard metadata that is always 0 here";
    SKIPPED_LINE = "W0116", "a line that begins with `#` and is no directive";
    NO_EFFECT = "W0117", "something that has no effect here";
}

#[cfg(test)]
mod tests {
    use super::{ALL, Code};

    #[test]
    fn ids_are_well_formed_and_in_order() {
        for pair in ALL.windows(2) {
            assert!(pair[0].id < pair[1].id, "{} before {}", pair[0], pair[1]);
        }
        for code in ALL {
            assert_eq!(code.id.len(), 5, "{code}");
            assert!(code.id.starts_with(['E', 'W']), "{code}");
        }
        assert_eq!(Code::find("e0001"), Some(super::YAML_SYNTAX));
    }

    #[test]
    fn each_page_tells_the_story() {
        for code in ALL {
            let title = format!("# {}: {}", code.id, code.summary);
            assert_eq!(code.page.lines().next(), Some(title.as_str()), "first line of {code}.md");
            assert!(code.page.matches("```").count() >= 4, "{code}.md: a bad and a good example");
        }
    }
}
