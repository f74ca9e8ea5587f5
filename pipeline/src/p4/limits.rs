//! Limits: what is right P4-16 and does not run here.

use crate::diag::{Code, Diagnostics, Severity, codes};

/// Codes of what Wireyard does not support, or has less room for than P4. Every other error is the program's own.
const LIMITS: &[Code] = &[
    codes::P4_UNSUPPORTED,
    codes::LIMIT,
    codes::LIMITS,
    codes::TOO_DEEP,
    codes::RECURSION,
    codes::CONST_RANGE,
    codes::BAD_WIDTH,
    codes::BAD_LAYOUT,
    codes::HEADER_SIZE,
    codes::CARRIED,
    codes::NO_PROGRESS,
    codes::TWO_LPM,
    codes::TOO_MANY_ENTRIES,
    codes::SELECTOR,
    codes::COVER_FIELD,
    codes::COVER,
    codes::ACCESS,
    codes::CANNOT_LEARN,
    // Names, and what must be known, were checked before: the tree has no such form of them.
    codes::UNKNOWN,
    codes::NOT_CONSTANT,
    // Types and the bounds of slices too: what is left is a value of more bits than one has here.
    codes::WRONG_KIND,
    codes::BAD_SLICE,
];

/// The errors that refuse a correct program, as warnings; `None` if one of them is no limit.
pub fn only_limits(found: &Diagnostics) -> Option<Diagnostics> {
    let mut limits = Diagnostics::new();
    for one in found.sorted() {
        if one.severity() == Severity::Warning {
            limits.push(one.clone());
            continue;
        }
        if !LIMITS.contains(&one.code) {
            return None;
        }
        let mut limit = one.clone().with_code(codes::NOT_RUN_HERE);
        limit.note(format!("`wireyard run` refuses it: {}", one.code));
        limits.push(limit);
    }
    Some(limits)
}
