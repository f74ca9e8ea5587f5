//! Selects packets with an expression of the language.
//!
//! The expression becomes the ingress control of the program that decodes, so it is checked and run
//! like any other code. One thing is added: a comparison that names a field is false where the header
//! of that field was not found (elsewhere such a field reads as 0, and `bth.psn == 0` would hold for
//! every ARP packet).

use std::collections::BTreeSet;

use crate::ast::{Ast, AstBin, AstExpr, Path, PathPart, Sp, Stmt, StmtKind};
use crate::diag::{Diagnostics, Rejected};
use crate::ir::{SourceFile, SourceSpan};
use crate::source::Parsed;
use crate::syntax::{self, Text};

/// The name of the filter in diagnostics.
pub const FILE_NAME: &str = "--filter";

/// Replaces the program's ingress by the filter.
///
/// # Errors
/// The text is not an expression. Wrong names and widths are found when the result is compiled.
pub fn apply(mut parsed: Parsed, text: &str) -> Result<Parsed, Rejected> {
    let source = SourceFile::named(FILE_NAME, text.into());
    let file = parsed.files.push(source);
    let whole = SourceSpan { file, start: 0, end: text.len() as u32 };
    let mut wanted = match syntax::expression(Text { text, whole, start: Some(0) }) {
        Ok(wanted) => wanted,
        Err(error) => {
            let mut diagnostics = Diagnostics::new();
            let found = diagnostics.error(error.code, error.span, error.message);
            if let Some(help) = error.help {
                found.help(help);
            }
            return Err(Rejected { diagnostics, files: parsed.files });
        }
    };
    let headers = header_names(&parsed);
    guard(&mut wanted, &headers);
    if let Some(program) = parsed.units.first_mut() {
        let statement = StmtKind::If(wanted, vec![pick(whole)], Vec::new());
        program.ingress = Some(Sp::new(vec![Stmt { kind: statement, span: whole }], whole));
    }
    Ok(parsed)
}

/// Removes the program's ingress, so that no packet is selected: decoding without a filter needs none.
pub fn none(mut parsed: Parsed) -> Parsed {
    if let Some(program) = parsed.units.first_mut() {
        program.ingress = None;
    }
    parsed
}

/// `std.egress_port = 1`.
fn pick(span: SourceSpan) -> Stmt {
    let path = name_path(&["std", "egress_port"], span);
    let one = Sp::new(Ast::Number { value: 1, bits: None }, span);
    Stmt { kind: StmtKind::Assign(Sp::new(path, span), None, one), span }
}

fn name_path(names: &[&str], span: SourceSpan) -> Path {
    let part = |name: &&str| PathPart::Name(Sp::new((*name).to_owned(), span));
    Path { parts: names.iter().map(part).collect() }
}

/// Instances of the program, by name; true for a stack.
fn header_names(parsed: &Parsed) -> BTreeSet<(String, bool)> {
    let mut names = BTreeSet::new();
    for unit in &parsed.units {
        let own = unit.instances.iter().map(|(name, it)| (name.value.clone(), it.stack.is_some()));
        names.extend(unit.headers.iter().map(|(name, _)| (name.value.clone(), false)));
        names.extend(own);
    }
    names
}

/// Makes every comparison false if a header that it names is not valid.
fn guard(expr: &mut AstExpr, headers: &BTreeSet<(String, bool)>) {
    use AstBin::{Eq, Ge, Gt, Le, Lt, Ne};
    let compares = matches!(&expr.value, Ast::Binary(Eq | Ne | Lt | Le | Gt | Ge, ..));
    if compares {
        let mut needed = Vec::new();
        mentioned(expr, headers, &mut needed);
        for valid in needed {
            let span = expr.span;
            let inner = std::mem::replace(expr, valid.clone());
            let both = Ast::Binary(AstBin::LogicalAnd, Box::new(valid), Box::new(inner));
            *expr = Sp::new(both, span);
        }
        return;
    }
    expr.value.each_part_mut(&mut |part| guard(part, headers));
}

/// The validity of every header whose fields are read, each once.
fn mentioned(expr: &AstExpr, headers: &BTreeSet<(String, bool)>, into: &mut Vec<AstExpr>) {
    if let Ast::Path(path) = &expr.value
        && let Some(valid) = validity(path, headers, expr.span)
        && !into.iter().any(|known| known.value == valid.value)
    {
        into.push(valid);
    }
    expr.value.each_part(&mut |part| mentioned(part, headers, into));
}

/// `ipv4.valid` for `ipv4.ttl`; of a stack, that of the element named, or of its first.
fn validity(path: &Path, headers: &BTreeSet<(String, bool)>, span: SourceSpan) -> Option<AstExpr> {
    let [PathPart::Name(first), rest @ ..] = path.parts.as_slice() else { return None };
    let is = |stack: bool| headers.contains(&(first.value.clone(), stack));
    if let Some(PathPart::Name(last)) = rest.last()
        && matches!(last.value.as_str(), "valid" | "depth")
    {
        return None;
    }
    let mut parts = vec![PathPart::Name(first.clone())];
    match rest.first()? {
        PathPart::Index(index) if is(true) => parts.push(PathPart::Index(index.clone())),
        PathPart::Name(_) if is(true) => {
            let zero = Sp::new(Ast::Number { value: 0, bits: None }, span);
            parts.push(PathPart::Index(zero));
        }
        _ if is(false) => {}
        _ => return None,
    }
    parts.push(PathPart::Name(Sp::new("valid".into(), span)));
    Some(Sp::new(Ast::Path(Path { parts }), span))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{ExternRegistry, compile};
    use crate::decode::Decoder;
    use crate::source::{Loader, parse_program};

    const PROGRAM: &str = "
pipeline: p
headers: { a: { fields: { kind: 8 } }, b: { fields: { x: 8 } }, t: { fields: { more: 8 } } }
instances: { tag: { header: t, stack: 2 } }
parser:
  start: { extract: a, select: a.kind, cases: { 1: b, 2: tag }, default: accept }
  b: { extract: b }
  tag: { extract: tag, select: tag.last.more, cases: { 1: tag }, default: accept }
deparser: { emit: [a, b, tag] }
ingress: [ std.egress_port = 7 ]
";

    fn decoder(filter: &str) -> Result<Decoder, String> {
        let loader = Loader::in_memory([("p.yaml", PROGRAM)], &[]);
        let parsed = parse_program("p.yaml".as_ref(), &loader).map_err(|e| e.to_string())?;
        let parsed = apply(parsed, filter).map_err(|e| e.to_string())?;
        let files = parsed.files.clone();
        let compiled = compile(&parsed, &ExternRegistry::default())
            .map_err(|diagnostics| Rejected { diagnostics, files }.to_string())?;
        Decoder::new(compiled.program.into()).map_err(|error| error.to_string())
    }

    fn picks(filter: &str, packet: &[u8]) -> bool {
        decoder(filter).unwrap().parse(packet, 0).unwrap().picked()
    }

    #[test]
    fn a_field_that_is_not_there_equals_nothing() {
        assert!(picks("b.x == 0", &[1, 0]));
        assert!(!picks("b.x == 0", &[0, 0]));
        assert!(!picks("b.x != 5", &[0, 0]));
        assert!(picks("!(b.x == 0)", &[0, 0]));
        assert!(picks("a.kind == 0 || b.x == 1", &[0, 0]));
        assert!(!picks("tag.last.more == 0", &[0]));
        assert!(picks("tag.last.more == 0 && tag[0].more == 1", &[2, 1, 0]));
        assert!(!picks("tag[1].more == 0", &[2, 0]));
        assert!(picks("b.valid == false && tag.depth == 1", &[2, 0]));
        assert!(picks("b.valid && std.packet_length == 3", &[1, 0, 9]));
    }

    #[test]
    fn a_wrong_filter_is_told_with_its_place() {
        let text = decoder("b.y == 1").unwrap_err();
        assert!(text.contains("--filter") && text.contains("E0104"), "{text}");
        let text = decoder("b.x ==").unwrap_err();
        assert!(text.contains("--filter"), "{text}");
        assert!(decoder("b.x").unwrap_err().contains("E0111"));
    }
}
