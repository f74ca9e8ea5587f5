//! Headers that never are in the packet, because no parser extracts them and no deparser emits them, become metadata, a field for each of
//! theirs and one for whether they are valid: those that nothing makes valid, and all where a program has more headers than there are
//! bits of validity.
//!
//! What a field of an invalid header reads as is open (P4-16 1.2.5, section 8.17): these read what was written last.

use std::collections::{HashMap, HashSet};

use super::super::types::Type;
use super::Lower;
use super::build::number;
use super::rewrite;
use super::storage::HIDDEN_FIELD;
use crate::ast::{
    Ast, AstExpr, FieldDecl, InstanceDecl, MetaDecl, Path, PathPart, Size, Sp, Stmt, StmtKind,
    TypeRef, element,
};
use crate::diag::codes;
use crate::ir::SourceSpan;
use crate::ir::decl::INSTANCES_MAX;
use crate::ir::layout::VALUE_BITS_MAX;

/// How many headers an instance is.
fn count((_, decl): &(Sp<String>, InstanceDecl)) -> usize {
    match &decl.stack {
        Some(Size::Number(size)) => size.value as usize,
        _ => 1,
    }
}

/// The path of a field: of metadata, or of the hidden header of a field that is no number.
type FieldPath = [String; 2];

/// A header that becomes metadata.
struct Inside {
    /// Whether it is valid.
    valid: FieldPath,
    /// Its fields, and the place of each.
    fields: Vec<(String, FieldPath)>,
}

/// What becomes of fields over 128 bits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wide {
    /// Their header stays as it is: hidden headers have been made valid already.
    Stay,
    /// Each is a hidden header.
    AreHidden,
}

impl Inside {
    fn field(&self, name: &str) -> Option<&FieldPath> {
        if name == "valid" {
            return Some(&self.valid);
        }
        self.fields.iter().find(|(known, _)| known == name).map(|(_, place)| place)
    }
}

impl Lower<'_> {
    /// Makes metadata of headers that never are in the packet, where there are too many headers.
    pub(super) fn headers_inside(&mut self) {
        if self.unit.instances.iter().map(count).sum::<usize>() <= INSTANCES_MAX {
            return;
        }
        let found = self.only_inside();
        self.make_inside(&found, Wide::Stay);
        self.refuse_many();
    }

    /// Makes metadata of headers that are written and that nothing makes valid: programs use them as structs, and bmv2 keeps what is
    /// written. One that ingress writes and egress reads crosses the queue as a header, and stays one.
    pub(super) fn headers_as_structs(&mut self) {
        let (mut written, mut made_valid) = (HashSet::new(), HashSet::new());
        rewrite::lists(&mut self.unit, &mut |list| {
            for statement in list.iter() {
                let is_end = matches!(&statement.kind, StmtKind::Call(name, _) if &*name.value == "set_invalid");
                if !is_end {
                    let whole = whole_headers(statement).into_iter();
                    made_valid.extend(whole.map(|path| first(path).to_owned()));
                }
                if let StmtKind::Assign(to, ..) = &statement.kind
                    && let Some((header, _)) = rewrite::two_names(&to.value)
                {
                    written.insert(header.to_owned());
                }
            }
        });
        let mut found = self.only_inside();
        found.retain(|name| written.contains(name) && !made_valid.contains(name));
        if !found.is_empty() {
            self.make_inside(&found, Wide::AreHidden);
        }
    }

    fn make_inside(&mut self, found: &HashSet<String>, wide: Wide) {
        let mut made = HashMap::new();
        for (name, decl) in self.unit.instances.clone() {
            if found.contains(&name.value)
                && let Some(inside) = self.inside(&name, &decl.header.value, wide)
            {
                made.insert(name.value, inside);
            }
        }
        self.unit.instances.retain(|(name, _)| !made.contains_key(&name.value));
        if let Some(deparser) = &mut self.unit.deparser {
            deparser.discard.retain(|name| !made.contains_key(&name.value));
        }
        let fields = self.unit.headers.iter().map(|(name, decl)| {
            let fields = decl.fields.iter().map(|(name, _)| name.value.clone());
            (name.value.clone(), fields.collect())
        });
        let fields: HashMap<String, Vec<String>> = fields.collect();
        let types = self.unit.instances.iter();
        let types = types.map(|(name, decl)| (name.value.clone(), decl.header.value.clone()));
        let types: HashMap<String, String> = types.collect();
        let fields_of = |path: &Path| types.get(first(path)).and_then(|ty| fields.get(ty));
        rewrite::lists(&mut self.unit, &mut |list| {
            if list.iter().any(|one| is_changed(one, &made)) {
                let old = std::mem::take(list);
                list.extend(old.into_iter().flat_map(|one| changed(one, &made, &fields_of)));
            }
        });
        rewrite::paths(&mut self.unit, &mut |path| {
            if let Some((header, field)) = rewrite::two_names(path)
                && let Some(place) = made.get(header).and_then(|inside| inside.field(field))
            {
                *path = path_to(place, path_span(path));
            }
        });
    }

    /// The parser and the deparser have too many headers.
    fn refuse_many(&mut self) {
        let mut total = 0;
        let mut first = None;
        for one in &self.unit.instances {
            total += count(one);
            if total > INSTANCES_MAX && first.is_none() {
                first = Some(one.0.span);
            }
        }
        let Some(span) = first else { return };
        let stacks = self.unit.instances.iter().filter(|(_, decl)| decl.stack.is_some());
        let stacks: Vec<String> =
            stacks.map(|one| format!("{} {}", one.0.value, count(one))).collect();
        let text =
            format!("{total} headers are parsed or emitted; a packet has at most {INSTANCES_MAX}");
        let error = self.report.error(codes::LIMITS, span, text);
        error.note(
            "every element of a stack is a header; those that never are in the packet do not count",
        );
        if !stacks.is_empty() {
            error.help(format!("stacks: {}", stacks.join(", ")));
        }
    }

    /// What the parser extracts, and the deparser emits.
    pub(super) fn in_packet(&self) -> impl Iterator<Item = String> {
        let states = self.unit.parser.iter().chain(&self.unit.egress_parser);
        let extracted = states.flat_map(|(_, state)| {
            let later = state.statements.iter().filter_map(extracted).map(first);
            state.extract.iter().map(|name| name.value.as_str()).chain(later)
        });
        let emitted = self.unit.deparser.iter().flat_map(|deparser| &deparser.emit).flatten();
        let emitted = emitted.chain(&self.emits).map(|name| name.value.as_str());
        extracted.chain(emitted).map(|name| element(name).0.to_owned())
    }

    /// Headers of which nothing but fields and validity is used.
    fn only_inside(&mut self) -> HashSet<String> {
        let in_packet: HashSet<String> = self.in_packet().collect();
        let unions = self.unit.unions.iter().flat_map(|(_, members)| members);
        let unions: HashSet<String> = unions.map(|member| member.value.clone()).collect();
        let singles = self.unit.instances.iter().filter(|(_, decl)| decl.stack.is_none());
        let singles = singles.map(|(name, _)| name.value.clone());
        let mut found: HashSet<String> =
            singles.filter(|name| !in_packet.contains(name) && !unions.contains(name)).collect();
        // A whole header stands where it becomes valid, invalid or another one; nowhere else.
        let mut whole: HashMap<String, isize> = HashMap::new();
        rewrite::paths(&mut self.unit, &mut |path| {
            if path.single().is_some() {
                *whole.entry(first(path).to_owned()).or_default() += 1;
            }
        });
        rewrite::lists(&mut self.unit, &mut |list| {
            for path in list.iter().flat_map(whole_headers) {
                *whole.entry(first(path).to_owned()).or_default() -= 1;
            }
        });
        found.retain(|name| whole.get(name).is_none_or(|count| *count == 0));
        found
    }

    /// The metadata of a header; `None` where it has a field that is no number.
    fn inside(&mut self, name: &Sp<String>, header: &str, wide: Wide) -> Option<Inside> {
        let (_, decl) = self.unit.headers.iter().find(|(known, _)| known.value == *header)?;
        let bits = |field: &FieldDecl| match field {
            FieldDecl::Bits(TypeRef::Bits(bits))
                if bits.value <= VALUE_BITS_MAX.into()
                    || wide == Wide::AreHidden && bits.value % 8 == 0 =>
            {
                Some(bits.value)
            }
            _ => None,
        };
        let fields: Vec<(String, u64)> = decl
            .fields
            .iter()
            .map(|(name, field)| Some((name.value.clone(), bits(field)?)))
            .collect::<Option<_>>()?;
        if decl.controller.is_some() {
            return None;
        }
        let mut place = |field: &str, bits: u64| {
            let wanted = format!("{}_{field}", name.value);
            if bits > VALUE_BITS_MAX.into() {
                let header = self.hidden_header(&Type::Bit(bits as u32), &wanted, name.span);
                return [header, HIDDEN_FIELD.to_owned()];
            }
            let made = self.names.fresh(&wanted, "");
            let ty = TypeRef::Bits(Sp::new(bits, name.span));
            let decl = MetaDecl { ty, carried: false };
            self.unit.metadata.push((Sp::new(made.clone(), name.span), decl));
            ["meta".to_owned(), made]
        };
        let valid = place("valid", 1);
        let fields = fields.into_iter().map(|(field, bits)| {
            let made = place(&field, bits);
            (field, made)
        });
        let fields = fields.collect();
        Some(Inside { valid, fields })
    }
}

fn first(path: &Path) -> &str {
    match path.parts.first() {
        Some(PathPart::Name(name)) => &name.value,
        _ => "",
    }
}

fn path_span(path: &Path) -> SourceSpan {
    match path.parts.first() {
        Some(PathPart::Name(name)) => name.span,
        _ => super::NOWHERE,
    }
}

/// What a statement of a parser extracts.
fn extracted(statement: &Stmt) -> Option<&Path> {
    match &statement.kind {
        StmtKind::Call(name, args) if name.value == "extract" => args.first().and_then(path_of),
        _ => None,
    }
}

/// The whole headers of a statement that makes them valid, invalid or another one.
fn whole_headers(statement: &Stmt) -> Vec<&Path> {
    match &statement.kind {
        StmtKind::Call(name, args) if matches!(&*name.value, "set_valid" | "set_invalid") => {
            args.iter().filter_map(path_of).filter(|path| path.single().is_some()).collect()
        }
        StmtKind::Assign(to, None, from) => {
            let from = path_of(from);
            let both = [Some(&to.value), from.filter(|_| is_whole(&to.value))];
            both.into_iter().flatten().filter(|path| path.single().is_some()).collect()
        }
        _ => Vec::new(),
    }
}

fn path_of(expr: &AstExpr) -> Option<&Path> {
    if let Ast::Path(path) = &expr.value { Some(path) } else { None }
}

/// A header or an element of a stack, not a field.
fn is_whole(path: &Path) -> bool {
    match path.parts.as_slice() {
        [PathPart::Name(_), rest @ ..] => {
            rest.iter().all(|part| matches!(part, PathPart::Index(_)))
        }
        _ => false,
    }
}

/// Whether a statement has one of these headers as a whole.
fn is_changed(statement: &Stmt, made: &HashMap<String, Inside>) -> bool {
    whole_headers(statement).iter().any(|path| made.contains_key(first(path)))
}

/// What becomes of a statement.
fn changed<'f>(
    statement: Stmt,
    made: &HashMap<String, Inside>,
    fields_of: &dyn Fn(&Path) -> Option<&'f Vec<String>>,
) -> Vec<Stmt> {
    if !is_changed(&statement, made) {
        return vec![statement];
    }
    let span = statement.span;
    match &statement.kind {
        StmtKind::Call(name, args) => {
            let is_valid = name.value == "set_valid";
            let headers = args.iter().filter_map(path_of).filter_map(|path| made.get(first(path)));
            let one = number(u128::from(is_valid), 1, span);
            headers.map(|inside| assign(path_to(&inside.valid, span), one.clone(), span)).collect()
        }
        StmtKind::Assign(to, _, from) => {
            let Some(from) = path_of(from) else { return vec![statement] };
            copied(&to.value, from, made, fields_of, span)
        }
        _ => vec![statement],
    }
}

/// `to = from` for whole headers.
fn copied<'f>(
    to: &Path,
    from: &Path,
    made: &HashMap<String, Inside>,
    fields_of: &dyn Fn(&Path) -> Option<&'f Vec<String>>,
    span: SourceSpan,
) -> Vec<Stmt> {
    let part = |of: &Path, field: &str| match made.get(first(of)).and_then(|one| one.field(field)) {
        Some(place) => path_to(place, span),
        None => {
            let mut path = of.clone();
            path.parts.push(PathPart::Name(Sp::new(field.to_owned(), span)));
            path
        }
    };
    let value = |path: Path| Sp::new(Ast::Path(path), span);
    let copy = |field: &str| assign(part(to, field), value(part(from, field)), span);
    if let Some(inside) = made.get(first(to)) {
        let fields = inside.fields.iter().map(|(field, _)| field.as_str());
        return ["valid"].into_iter().chain(fields).map(copy).collect();
    }
    let call = |name: &str| {
        let args = vec![value(to.clone())];
        Stmt { kind: StmtKind::Call(Sp::new(name.to_owned(), span), args), span }
    };
    let mut then = vec![call("set_valid")];
    then.extend(fields_of(to).into_iter().flatten().map(|field| copy(field)));
    let is_valid = super::build::is(value(part(from, "valid")), 1, 1, span);
    vec![Stmt { kind: StmtKind::If(is_valid, then, vec![call("set_invalid")]), span }]
}

fn path_to([first, second]: &FieldPath, span: SourceSpan) -> Path {
    super::build::path(&[first, second], span)
}

fn assign(to: Path, value: AstExpr, span: SourceSpan) -> Stmt {
    Stmt { kind: StmtKind::Assign(Sp::new(to, span), None, value), span }
}
