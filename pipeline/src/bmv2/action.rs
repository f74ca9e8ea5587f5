//! Actions: their primitives as statements.

use super::code::Code;
use super::expr::{Expr, Translator};
use super::flow::{Join, joins};
use super::json::Json;
use super::model::{Field, Place, unknown};
use super::{Import, LEVELS_MAX};
use crate::diag::codes;
use crate::ir::SourceSpan;

/// An action of the JSON.
pub(super) struct Action<'j> {
    pub(super) id: Option<u32>,
    pub(super) name: String,
    /// Its name in P4.
    pub(super) ident: String,
    /// Parameters: name in P4, bits.
    pub(super) params: Vec<(String, u32)>,
    /// Names of the parameters.
    pub(super) names: Vec<String>,
    pub(super) json: &'j Json,
    /// The first action of this name with the same body; p4c writes one for each table.
    pub(super) same: usize,
}

impl Action<'_> {
    /// `NoAction`, which P4 has itself.
    pub(super) fn is_no_action(&self) -> bool {
        self.ident == "NoAction"
    }
}

impl<'j> Import<'j, '_> {
    /// Reads the names of the actions.
    pub(super) fn actions(&mut self) {
        for json in self.reader.list(self.json, "actions") {
            let Some(name) = self.reader.text_at(json, "name") else { continue };
            let mut names = super::names::Names::default();
            let (mut params, mut own) = (Vec::new(), Vec::new());
            for param in self.reader.list(json, "runtime_data") {
                let Some(param_name) = self.reader.text_at(param, "name") else { continue };
                let Some(bits) = self.reader.count_at(param, "bitwidth") else { continue };
                if bits == 0 || bits > super::PARAM_BITS_MAX {
                    self.reader
                        .error(param.place("bitwidth"), format!("a parameter of {bits} bits"));
                    continue;
                }
                params.push((names.fresh(param_name), bits));
                own.push(param_name.to_owned());
            }
            let is_empty = params.is_empty() && self.reader.list(json, "primitives").is_empty();
            let at = self.actions.len();
            let same = self.actions.iter().position(|other| {
                let alike = |key| match (other.json.get(key), json.get(key)) {
                    (Some(a), Some(b)) => a.same(b),
                    (a, b) => a.is_none() && b.is_none(),
                };
                other.name == name && alike("runtime_data") && alike("primitives")
            });
            let ident = match same {
                Some(same) => self.actions[same].ident.clone(),
                None if name == "NoAction" && is_empty => "NoAction".to_owned(),
                None => self.model.names.fresh(name),
            };
            let id = json.get("id").and_then(|id| self.reader.count(id));
            let name = name.to_owned();
            let same = same.unwrap_or(at);
            self.actions.push(Action { id, name, ident, params, names: own, json, same });
        }
    }

    /// The place of an action by its number.
    pub(super) fn action_by_id(&mut self, json: &Json) -> Option<usize> {
        let id = self.reader.count(json)?;
        let found = self.actions.iter().position(|action| action.id == Some(id));
        found.or_else(|| {
            self.reader.report.refuse(codes::UNKNOWN, json.span, format!("there is no action {id}"))
        })
    }

    /// Places of a table's actions.
    pub(super) fn actions_of(&mut self, table: &Json) -> Vec<usize> {
        if table.get("action_ids").is_some() {
            let ids = self.reader.list(table, "action_ids");
            return ids.iter().filter_map(|id| self.action_by_id(id)).collect();
        }
        let mut found = Vec::new();
        for one in self.reader.list(table, "actions") {
            let Some(name) = self.reader.text(one) else { continue };
            match self.actions.iter().position(|action| action.name == name) {
                Some(at) => found.push(at),
                None => {
                    let known = self.actions.iter().map(|action| action.name.as_str());
                    unknown::<()>(&mut self.reader, one.span, "action", name, known);
                }
            }
        }
        found
    }

    /// The statements of an action.
    pub(super) fn action_body(&mut self, at: usize) -> Code {
        self.params = self.actions[at].params.clone();
        let json = self.actions[at].json;
        let primitives = self.reader.list(json, "primitives");
        let code = self.block(primitives);
        self.params.clear();
        code
    }

    /// Primitives in their order, with jumps turned into blocks.
    fn block(&mut self, primitives: &'j [Json]) -> Code {
        let mut code = Code::default();
        let is_jump = |one: &Json| matches!(one.text_of("op"), Some("_jump" | "_jump_if_zero"));
        if !primitives.iter().any(is_jump) {
            for one in primitives {
                self.primitive(one, &mut code);
                if code.refused.is_some() {
                    break;
                }
            }
            return code;
        }
        let end = primitives.len();
        let mut next = Vec::new();
        for (at, one) in primitives.iter().enumerate() {
            let args = self.reader.list(one, "parameters");
            let target = |import: &mut Self, arg: Option<&Json>| {
                let value = import.translator().read(arg?)?;
                let Expr::Number(to) = value else {
                    return import.reader.unsupported(
                        one.place("op"),
                        "a jump to a computed place is not supported",
                    );
                };
                match usize::try_from(&to) {
                    Ok(to) if to <= end => Some(to),
                    _ => import.reader.refuse(
                        one.place("op"),
                        format!("there is no primitive {to} in this action"),
                    ),
                }
            };
            next.push(match one.text_of("op") {
                Some("_jump") => vec![target(self, args.first()).unwrap_or(end)],
                // The step for a value other than zero, then the jump's target.
                Some("_jump_if_zero") => vec![at + 1, target(self, args.get(1)).unwrap_or(end)],
                Some("exit") => vec![end],
                _ => vec![at + 1],
            });
        }
        // The end is a step too: all branches come by there.
        next.push(Vec::new());
        match joins(&next, 0) {
            Ok(joins) => {
                let graph = Graph { primitives, next: &next, joins: &joins };
                self.steps(&graph, Part { first: 0, until: end, depth: 0 }, &mut code);
            }
            Err(step) => {
                let span = primitives.get(step).map_or(self.json.span, |one| one.place("op"));
                self.reader
                    .unsupported::<()>(span, "a jump back in an action: loops are not supported");
            }
        }
        code
    }

    fn steps(&mut self, graph: &Graph<'j, '_>, part: Part, code: &mut Code) {
        let mut at = part.first;
        while at != part.until && code.refused.is_none() {
            let Some(one) = graph.primitives.get(at) else { return };
            match one.text_of("op") {
                Some("_jump") => code.step(one.span),
                Some("_jump_if_zero") => {
                    let span = one.place("op");
                    let condition = self.reader.list(one, "parameters").first().and_then(|arg| {
                        let mut translator = self.translator();
                        let value = translator.read(arg)?;
                        translator.truth(value, span)
                    });
                    let Some(condition) = condition else { return };
                    let [then, other] = graph.next[at][..] else { return };
                    if part.depth == LEVELS_MAX {
                        let why = format!("jumps are nested deeper than {LEVELS_MAX} levels");
                        return code.refuse(span, why);
                    }
                    let (until, depth) = (graph.joins[at].at, part.depth + 1);
                    code.put(&format!("if ({condition}) {{"), span);
                    self.steps(graph, Part { first: then, until, depth }, code);
                    code.put("} else {", span);
                    self.steps(graph, Part { first: other, until, depth }, code);
                    code.put("}", span);
                    at = until;
                    continue;
                }
                _ => self.primitive(one, code),
            }
            let Some(next) = graph.next[at].first() else { return };
            at = *next;
        }
    }

    /// One primitive as a statement.
    pub(super) fn primitive(&mut self, json: &'j Json, code: &mut Code) {
        let Some(op) = self.reader.text_at(json, "op") else { return };
        let span = json.place("op");
        let args = self.reader.list(json, "parameters");
        code.step(span);
        let Some((least, most)) = arity(op) else {
            let shown = crate::syntax::shown(op);
            self.reader
                .unsupported::<()>(span, format!("the primitive `{shown}` is not supported"));
            return;
        };
        if args.len() < least || args.len() > most {
            let text = format!("`{op}` has {} parameters here", args.len());
            self.reader.error(span, text).note(match least == most {
                true => format!("it takes {least}"),
                false => format!("it takes {least} to {most}"),
            });
            return;
        }
        if let Some(text) = self.statement(op, args, span) {
            code.put(&text, span);
        }
    }

    fn statement(&mut self, op: &str, args: &'j [Json], span: SourceSpan) -> Option<String> {
        match op {
            "log_msg" | "assert" | "assume" | "no_op" => None,
            "exit" => Some("exit;".to_owned()),
            "mark_to_drop" | "drop" => Some("mark_to_drop(standard_metadata);".to_owned()),
            "assign" | "modify_field" | "set" if args.len() == 2 => {
                let mut translator = self.translator();
                let (to, value) = (translator.read(&args[0])?, translator.read(&args[1])?);
                store(&mut translator, &to, &value, span)
            }
            "assign_VL" | "assign_union" | "assign_header_stack" | "assign_union_stack" => {
                let mut translator = self.translator();
                let (to, from) = (translator.read(&args[0])?, translator.read(&args[1])?);
                match (&to, &from) {
                    (Expr::Variable(to), Expr::Variable(from))
                    | (Expr::Union(to), Expr::Union(from))
                    | (Expr::Stack(to, _), Expr::Stack(from, _)) => Some(format!("{to} = {from};")),
                    _ => self
                        .reader
                        .refuse(span, format!("`{op}` cannot copy one of these to the other")),
                }
            }
            "assign_header" | "copy_header" => self.assign_header(args, span),
            "add_header" | "add_header_fast" | "remove_header" => {
                self.validity(op != "remove_header", &args[0], span)
            }
            "push" | "pop" => {
                let mut translator = self.translator();
                let stack = translator.read(&args[0])?;
                let count = match args.get(1) {
                    Some(count) => translator.read(count)?,
                    None => Expr::Number(1.into()),
                };
                match (stack, count) {
                    (Expr::Stack(path, _), Expr::Number(count)) => {
                        Some(format!("{path}.{op}_front({count});"))
                    }
                    _ => {
                        self.reader.refuse(span, format!("`{op}` takes a stack and a known number"))
                    }
                }
            }
            "add_to_field"
            | "subtract_from_field"
            | "add"
            | "subtract"
            | "bit_xor"
            | "bit_or"
            | "bit_and"
            | "shift_left"
            | "shift_right" => self.arithmetic(op, args, span),
            _ => self.extern_call(op, args, span),
        }
    }

    /// Makes a header valid, or invalid.
    fn validity(&mut self, valid: bool, header: &'j Json, span: SourceSpan) -> Option<String> {
        match self.translator().read(header)? {
            Expr::Header(path, _) if valid => Some(format!("{path}.setValid();")),
            Expr::Header(path, _) => Some(format!("{path}.setInvalid();")),
            Expr::Loose(name, _) => {
                let flag = self.loose_field(&name, "$valid$", span)?;
                Some(format!("{flag} = 1w{};", u8::from(valid)))
            }
            _ => self.reader.refuse(header.span, "a header must stand here"),
        }
    }

    /// Headers; metadata field by field.
    fn assign_header(&mut self, args: &'j [Json], span: SourceSpan) -> Option<String> {
        let metadata = |import: &Self, json: &Json| {
            let name = json.text_of("value").filter(|_| json.text_of("type") == Some("header"))?;
            let found = import.model.instances.get(name)?;
            found.metadata.then(|| (name.to_owned(), found.ty))
        };
        if let (Some((to, ty)), Some((from, _))) =
            (metadata(self, &args[0]), metadata(self, &args[1]))
        {
            let fields = self.model.types.get(ty).map(|ty| ty.fields.clone()).unwrap_or_default();
            let mut text = String::new();
            for field in fields.iter().filter(|field| !field.name.starts_with("_padding")) {
                let mut place = |instance: &str| {
                    self.model.named_field(instance, &field.name, span, &mut self.reader)
                };
                if let (Some(Place::Data { text: to, .. }), Some(Place::Data { text: from, .. })) =
                    (place(&to), place(&from))
                {
                    text.push_str(&format!("{to} = {from};"));
                }
            }
            return Some(text);
        }
        let mut translator = self.translator();
        let (to, from) = (translator.read(&args[0])?, translator.read(&args[1])?);
        match (&to, &from) {
            (Expr::Header(to, a), Expr::Header(from, b)) if a == b => {
                Some(format!("{to} = {from};"))
            }
            (Expr::Loose(name, a), Expr::Loose(other, b)) if a == b => {
                let copies = self.copies(*a, &to, &from, span)?;
                let flag = self.loose_field(name, "$valid$", span)?;
                let valid = self.loose_field(other, "$valid$", span)?;
                Some(format!("{copies}{flag} = {valid};"))
            }
            (Expr::Loose(name, a), Expr::Header(path, b)) if a == b => {
                let flag = self.loose_field(name, "$valid$", span)?;
                let copies = self.copies(*a, &to, &from, span)?;
                Some(format!("{flag} = ({path}.isValid() ? 1w1 : 1w0);{copies}"))
            }
            (Expr::Header(path, a), Expr::Loose(name, b)) if a == b => {
                let flag = self.loose_field(name, "$valid$", span)?;
                let made = format!("{path}.setValid();{}", self.copies(*a, &to, &from, span)?);
                Some(format!("if ({flag} == 1w1) {{ {made} }} else {{ {path}.setInvalid(); }}"))
            }
            _ => self.reader.refuse(span, "two headers of one type must stand here"),
        }
    }

    /// Copies of all fields of a header type.
    fn copies(&mut self, ty: usize, to: &Expr, from: &Expr, span: SourceSpan) -> Option<String> {
        let fields = self.model.types.get(ty).map(|ty| ty.fields.clone()).unwrap_or_default();
        let mut text = String::new();
        for field in &fields {
            let (to, from) = (self.part(to, field, span)?, self.part(from, field, span)?);
            text.push_str(&format!("{to} = {from};"));
        }
        Some(text)
    }

    /// A field of a header, or of metadata.
    fn part(&mut self, header: &Expr, field: &Field, span: SourceSpan) -> Option<String> {
        match header {
            Expr::Header(path, _) => Some(format!("{path}.{}", field.ident)),
            Expr::Loose(name, _) => self.loose_field(name, &field.name, span),
            _ => None,
        }
    }

    /// The metadata of a header that is in no packet.
    fn loose_field(&mut self, name: &str, field: &str, span: SourceSpan) -> Option<String> {
        match self.model.named_field(name, field, span, &mut self.reader)? {
            Place::Data { text, .. } | Place::Flag(text) => Some(text),
            _ => None,
        }
    }

    /// Primitives of P4-14.
    fn arithmetic(&mut self, op: &str, args: &'j [Json], span: SourceSpan) -> Option<String> {
        use super::expr::Op;
        let mut translator = self.translator();
        let to = translator.read(&args[0])?;
        let value = |translator: &mut Translator<'_, '_>, at: usize| {
            let value = translator.read(args.get(at)?)?;
            translator.as_number(value, span)
        };
        let in_place = args.len() == 2;
        let (left, right) = match in_place {
            true => (to.clone(), value(&mut translator, 1)?),
            false => (value(&mut translator, 1)?, value(&mut translator, 2)?),
        };
        let op = match op {
            "add_to_field" | "add" => Op::Add,
            "subtract_from_field" | "subtract" => Op::Sub,
            "bit_xor" => Op::Xor,
            "bit_or" => Op::Or,
            "bit_and" => Op::And,
            "shift_left" => Op::Shl,
            _ => Op::Shr,
        };
        let sum = Expr::Binary(op, Box::new(left), Box::new(right));
        store(&mut translator, &to, &sum, span)
    }
}

/// The primitives of an action, the successors of each and of the end, where branches join.
struct Graph<'j, 'g> {
    primitives: &'j [Json],
    next: &'g [Vec<usize>],
    joins: &'g [Join],
}

/// Primitives that are written as one block: from one up to another.
#[derive(Clone, Copy)]
struct Part {
    first: usize,
    until: usize,
    depth: usize,
}

/// `to = value`, cut to the bits of `to`.
pub(super) fn store(
    translator: &mut Translator<'_, '_>,
    to: &Expr,
    value: &Expr,
    span: SourceSpan,
) -> Option<String> {
    match (to, value) {
        (Expr::Data { text, bits, .. }, value) => {
            let value = translator.as_number(value.clone(), span)?;
            let value = translator.modular(&value, *bits, span)?;
            Some(format!("{text} = {value};"))
        }
        (Expr::Variable(to), Expr::Variable(from)) => Some(format!("{to} = {from};")),
        _ => translator.reader.refuse(span, "this cannot be assigned"),
    }
}

/// How many parameters a primitive takes, at least and at most.
fn arity(op: &str) -> Option<(usize, usize)> {
    Some(match op {
        "no_op" | "exit" => (0, 0),
        "mark_to_drop" | "drop" => (0, 1),
        "assert" | "assume" | "truncate" | "add_header" | "add_header_fast" | "remove_header"
        | "_jump" => (1, 1),
        "resubmit" | "recirculate" => (0, 1),
        "log_msg" => (1, 2),
        "push" | "pop" => (1, 2),
        "assign"
        | "modify_field"
        | "set"
        | "assign_VL"
        | "assign_union"
        | "assign_header_stack"
        | "assign_union_stack"
        | "assign_header"
        | "copy_header"
        | "add_to_field"
        | "subtract_from_field"
        | "count"
        | "generate_digest"
        | "_jump_if_zero" => (2, 2),
        "clone_ingress_pkt_to_egress" | "clone_egress_pkt_to_egress" => (1, 2),
        "add"
        | "subtract"
        | "bit_xor"
        | "bit_or"
        | "bit_and"
        | "shift_left"
        | "shift_right"
        | "execute_meter"
        | "register_read"
        | "register_write"
        | "modify_field_rng_uniform" => (3, 3),
        "modify_field_with_hash_based_offset" => (4, 4),
        _ => return None,
    })
}
