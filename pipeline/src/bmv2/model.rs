//! Declarations of the JSON that other parts refer to: header types, instances, stacks, unions, errors, actions.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::json::{Json, Value};
use super::names::{Names, quoted};
use super::read::Reader;
use crate::diag::codes;
use crate::ir::SourceSpan;
use crate::p4info::Info;

mod controllers;

/// Widest number.
const WIDTH_MAX: u32 = 1 << 16;
/// Most errors: they are numbers of 8 bits.
const ERRORS_MAX: usize = 256;
/// The fields of v1model's standard metadata, with their widths there.
const STANDARD: [(&str, u32); 16] = [
    ("ingress_port", 9),
    ("egress_spec", 9),
    ("egress_port", 9),
    ("instance_type", 32),
    ("packet_length", 32),
    ("enq_timestamp", 32),
    ("enq_qdepth", 19),
    ("deq_timedelta", 32),
    ("deq_qdepth", 19),
    ("ingress_global_timestamp", 48),
    ("egress_global_timestamp", 48),
    ("mcast_grp", 16),
    ("egress_rid", 16),
    ("checksum_error", 1),
    ("priority", 3),
    ("qid", 5),
];
/// The instances in which `simple_switch` keeps them.
const STANDARD_INSTANCES: [&str; 3] =
    ["standard_metadata", "intrinsic_metadata", "queueing_metadata"];

/// A field of a header type.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) ident: String,
    /// Its bits; of a variable field the most.
    pub(super) bits: u32,
    pub(super) signed: bool,
    pub(super) variable: bool,
}

/// A header type.
#[derive(Debug)]
pub(super) struct HeaderType {
    pub(super) name: String,
    pub(super) ident: String,
    pub(super) fields: Vec<Field>,
    pub(super) used: bool,
    pub(super) span: SourceSpan,
}

/// An instance: a header, or metadata.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) name: String,
    pub(super) ty: usize,
    pub(super) metadata: bool,
    /// A header that is in no packet, neither extracted nor sent, so it is metadata with a validity bit.
    pub(super) loose: bool,
    /// Its path in P4: `hdr.vlan[0]`.
    pub(super) path: String,
    pub(super) span: SourceSpan,
}

/// A stack, a union, or a stack of unions.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) path: String,
    /// The header type of a stack, the union type of a union.
    pub(super) ty: usize,
}

/// A union type: its members with their types.
#[derive(Debug)]
pub(super) struct UnionType {
    pub(super) ident: String,
    pub(super) members: Vec<(String, String, usize)>,
    pub(super) span: SourceSpan,
}

/// A member of the struct of all headers.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) text: String,
    pub(super) span: SourceSpan,
}

/// The meaning of a field.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// A number.
    Data { text: String, bits: u32, signed: bool },
    /// A variable field.
    Variable(String),
    /// The validity of a header.
    Valid(String),
    /// The same as one bit of metadata.
    Flag(String),
    /// The parser's error.
    Error(String),
}

/// Everything that has a name.
#[derive(Default)]
pub(super) struct Model {
    pub(super) names: Names,
    pub(super) types: Vec<HeaderType>,
    pub(super) instances: HashMap<String, Instance>,
    pub(super) stacks: HashMap<String, Group>,
    pub(super) unions: HashMap<String, Group>,
    pub(super) union_stacks: HashMap<String, Group>,
    pub(super) union_types: Vec<UnionType>,
    pub(super) members: Vec<Member>,
    /// Names of errors by their numbers.
    pub(super) errors: BTreeMap<u32, String>,
    /// Metadata that something uses: instance and field, with its name, bits, and the lists that it is in.
    pub(super) metadata: BTreeMap<(String, String), (String, u32, BTreeSet<u32>)>,
    metadata_names: Names,
    /// Fields that are aliases of those of the standard metadata.
    aliases: HashMap<(String, String), &'static str>,
}

impl Model {
    pub(super) fn read(json: &Json, reader: &mut Reader<'_>) -> Model {
        let mut model = Model::default();
        model.header_types(json, reader);
        model.union_types(json, reader);
        for pair in reader.list(json, "field_aliases") {
            let [name, target] = reader.items(pair) else { continue };
            let (Some(name), Some((instance, field))) = (reader.text(name), reader.pair(target))
            else {
                continue;
            };
            let known = name.split_once('.').and_then(|(_, field)| standard(field));
            if let Some((known, _)) = known {
                model.aliases.insert((instance.to_owned(), field.to_owned()), known);
            }
        }
        let errors = reader.list(json, "errors");
        if errors.len() > ERRORS_MAX {
            let text = format!("{} errors: there are at most {ERRORS_MAX}", errors.len());
            reader.report.error(codes::LIMIT, json.place("errors"), text);
        }
        for pair in errors.iter().take(ERRORS_MAX) {
            if let [name, number] = reader.items(pair)
                && let (Some(name), Some(number)) = (reader.text(name), reader.count(number))
            {
                model.errors.insert(number, name.to_owned());
            }
        }
        model.instances(json, reader);
        model
    }

    fn header_types(&mut self, json: &Json, reader: &mut Reader<'_>) {
        for one in reader.list(json, "header_types") {
            let Some(name) = reader.text_at(one, "name") else { continue };
            if let Some(length) =
                one.get("length_exp").filter(|found| !matches!(found.value, Value::Null))
            {
                let text = "a `length_exp`, which P4-14 has for fields of variable length";
                reader.unsupported::<()>(length.span, text);
            }
            let (mut fields, mut names) = (Vec::new(), Names::default());
            let mut fixed = 0_u32;
            for field in reader.list(one, "fields") {
                let parts = reader.items(field);
                let ([field_name, bits] | [field_name, bits, _]) = parts else {
                    reader.error(field.span, "a field is a list of its name and its bits");
                    continue;
                };
                let Some(field_name) = reader.text(field_name) else { continue };
                let variable = bits.as_text() == Some("*");
                let bits = if variable { Some(8) } else { reader.count(bits) };
                let signed = matches!(parts.get(2), Some(Json { value: Value::Bool(true), .. }));
                let Some(bits) = bits else { continue };
                if bits == 0 || bits > WIDTH_MAX {
                    reader.error(field.span, format!("a field of {bits} bits"));
                    continue;
                }
                fixed = fixed.saturating_add(if variable { 0 } else { bits });
                let ident = names.field(field_name);
                let name = field_name.to_owned();
                fields.push(Field { name, ident, bits, signed, variable });
            }
            if let Some(field) = fields.iter_mut().find(|field| field.variable) {
                let most = reader.count_at(one, "max_length").unwrap_or(0);
                field.bits = most.saturating_mul(8).saturating_sub(fixed).clamp(8, WIDTH_MAX);
            }
            let (ident, span) = (self.names.fresh(name), one.place("name"));
            let name = name.to_owned();
            self.types.push(HeaderType { name, ident, fields, used: false, span });
        }
    }

    /// The number of a header type.
    fn type_of(&self, json: &Json, key: &str, reader: &mut Reader<'_>) -> Option<usize> {
        let name = reader.text_at(json, key)?;
        self.types.iter().position(|ty| ty.name == name).or_else(|| {
            let known = self.types.iter().map(|ty| ty.name.as_str());
            unknown(reader, json.place(key), "header type", name, known)
        })
    }

    fn union_types(&mut self, json: &Json, reader: &mut Reader<'_>) {
        for one in reader.list(json, "header_union_types") {
            let Some(name) = reader.text_at(one, "name") else { continue };
            let (mut members, mut names) = (Vec::new(), Names::default());
            for member in reader.list(one, "headers") {
                let Some((member_name, ty)) = reader.pair(member) else { continue };
                match self.types.iter().position(|known| known.name == ty) {
                    Some(ty) => {
                        self.types[ty].used = true;
                        members.push((member_name.to_owned(), names.fresh(member_name), ty));
                    }
                    None => {
                        let known = self.types.iter().map(|ty| ty.name.as_str());
                        unknown::<()>(reader, member.span, "header type", ty, known);
                    }
                }
            }
            let (ident, span) = (self.names.fresh(name), one.place("name"));
            self.union_types.push(UnionType { ident, members, span });
        }
    }

    fn instances(&mut self, json: &Json, reader: &mut Reader<'_>) {
        let mut numbers: HashMap<u32, String> = HashMap::new();
        for one in reader.list(json, "headers") {
            let Some(name) = reader.text_at(one, "name") else { continue };
            let Some(ty) = self.type_of(one, "header_type", reader) else { continue };
            if let Some(number) = one.get("id").and_then(|id| reader.count(id)) {
                numbers.insert(number, name.to_owned());
            }
            let metadata = one.is("metadata");
            let span = one.place("name");
            let (path, loose) = (String::new(), false);
            let instance = Instance { name: name.to_owned(), ty, metadata, loose, path, span };
            if self.instances.insert(name.to_owned(), instance).is_some() {
                reader.report.error(
                    codes::TWICE,
                    span,
                    format!("the header `{name}` is here twice"),
                );
            }
        }
        let mut names = Names::default();
        let seen = in_packets(json);
        self.stacks(json, reader, &numbers, &mut names);
        self.unions(json, reader, &numbers, &mut names);
        for one in reader.list(json, "headers") {
            let Some(name) = one.text_of("name") else { continue };
            let Some(instance) = self.instances.get_mut(name) else { continue };
            if instance.metadata || !instance.path.is_empty() {
                continue;
            }
            if !seen.contains(name) {
                instance.loose = true;
                continue;
            }
            let ident = names.fresh(name);
            instance.path = format!("hdr.{ident}");
            let (ty, span) = (instance.ty, instance.span);
            if let Some(ty) = self.types.get_mut(ty) {
                ty.used = true;
                let text = format!("{} {ident};", ty.ident);
                self.members.push(Member { text, span });
            }
        }
    }

    fn stacks(
        &mut self,
        json: &Json,
        reader: &mut Reader<'_>,
        numbers: &HashMap<u32, String>,
        names: &mut Names,
    ) {
        for one in reader.list(json, "header_stacks") {
            let Some(name) = reader.text_at(one, "name") else { continue };
            let Some(ty) = self.type_of(one, "header_type", reader) else { continue };
            let ids = reader.list(one, "header_ids");
            let members: Vec<u32> = ids.iter().filter_map(|id| reader.count(id)).collect();
            let ident = names.fresh(name);
            let path = format!("hdr.{ident}");
            for (at, member) in members.iter().enumerate() {
                let of = numbers.get(member).and_then(|name| self.instances.get_mut(name));
                match of {
                    Some(of) => of.path = format!("{path}[{at}]"),
                    None => {
                        _ = reader
                            .error(one.place("header_ids"), format!("there is no header {member}"))
                    }
                }
            }
            let span = one.place("name");
            self.types[ty].used = true;
            let text = format!("{}[{}] {ident};", self.types[ty].ident, members.len());
            self.members.push(Member { text, span });
            self.stacks.insert(name.to_owned(), Group { path, ty });
        }
    }

    /// The number of the union type that a union or a stack of them has.
    fn union_type(&self, json: &Json, types: &[&str], reader: &mut Reader<'_>) -> Option<usize> {
        let name = reader.text_at(json, "union_type")?;
        let found = types.iter().position(|known| *known == name);
        found.filter(|at| *at < self.union_types.len()).or_else(|| {
            let place = json.place("union_type");
            unknown(reader, place, "union type", name, types.iter().copied())
        })
    }

    /// Stacks of unions; paths of the unions in them, by number.
    fn union_stacks(
        &mut self,
        json: &Json,
        types: &[&str],
        reader: &mut Reader<'_>,
        names: &mut Names,
    ) -> HashMap<u32, String> {
        let mut paths = HashMap::new();
        for one in reader.list(json, "header_union_stacks") {
            let Some(name) = reader.text_at(one, "name") else { continue };
            let Some(ty) = self.union_type(one, types, reader) else { continue };
            let ids = reader.list(one, "header_union_ids");
            let members: Vec<u32> = ids.iter().filter_map(|id| reader.count(id)).collect();
            let ident = names.fresh(name);
            let path = format!("hdr.{ident}");
            for (at, member) in members.iter().enumerate() {
                paths.insert(*member, format!("{path}[{at}]"));
            }
            let text = format!("{}[{}] {ident};", self.union_types[ty].ident, members.len());
            self.members.push(Member { text, span: one.place("name") });
            self.union_stacks.insert(name.to_owned(), Group { path, ty });
        }
        paths
    }

    fn unions(
        &mut self,
        json: &Json,
        reader: &mut Reader<'_>,
        numbers: &HashMap<u32, String>,
        names: &mut Names,
    ) {
        let types = reader.list(json, "header_union_types");
        let types: Vec<&str> = types.iter().filter_map(|one| one.text_of("name")).collect();
        let in_stacks = self.union_stacks(json, &types, reader, names);
        for one in reader.list(json, "header_unions") {
            let Some(name) = reader.text_at(one, "name") else { continue };
            let Some(ty) = self.union_type(one, &types, reader) else { continue };
            let id = one.get("id").and_then(|id| reader.count(id));
            let path = match id.and_then(|id| in_stacks.get(&id)) {
                Some(path) => path.clone(),
                None => {
                    let ident = names.fresh(name);
                    let text = format!("{} {ident};", self.union_types[ty].ident);
                    let path = format!("hdr.{ident}");
                    self.members.push(Member { text, span: one.place("name") });
                    path
                }
            };
            let ids = reader.list(one, "header_ids");
            let members: Vec<u32> = ids.iter().filter_map(|id| reader.count(id)).collect();
            for (member, (_, ident, _)) in members.iter().zip(&self.union_types[ty].members) {
                match numbers.get(member).and_then(|name| self.instances.get_mut(name)) {
                    Some(of) => of.path = format!("{path}.{ident}"),
                    None => {
                        let text = format!("there is no header {member}");
                        reader.error(one.place("header_ids"), text);
                    }
                }
            }
            self.unions.insert(name.to_owned(), Group { path, ty });
        }
    }

    /// An instance by its name.
    pub(super) fn instance(
        &self,
        name: &str,
        span: SourceSpan,
        reader: &mut Reader<'_>,
    ) -> Option<&Instance> {
        let known = self.instances.keys().map(String::as_str);
        self.instances.get(name).or_else(|| unknown(reader, span, "header", name, known))
    }

    /// The field of a header type.
    pub(super) fn field_of(
        &self,
        ty: usize,
        name: &str,
        span: SourceSpan,
        reader: &mut Reader<'_>,
    ) -> Option<Field> {
        let ty = self.types.get(ty)?;
        ty.fields.iter().find(|field| field.name == name).cloned().or_else(|| {
            let known = ty.fields.iter().map(|field| field.name.as_str());
            unknown(reader, span, &format!("field of {}", ty.name), name, known)
        })
    }

    /// The meaning of `[instance, field]`.
    pub(super) fn field(&mut self, json: &Json, reader: &mut Reader<'_>) -> Option<Place> {
        let (instance_name, field_name) = reader.pair(json)?;
        self.named_field(instance_name, field_name, json.span, reader)
    }

    pub(super) fn named_field(
        &mut self,
        instance_name: &str,
        field_name: &str,
        span: SourceSpan,
        reader: &mut Reader<'_>,
    ) -> Option<Place> {
        let instance = self.instance(instance_name, span, reader)?;
        let (ty, metadata) = (instance.ty, instance.metadata || instance.loose);
        if field_name == "$valid$" && !instance.metadata {
            return Some(match instance.loose {
                true => Place::Flag(self.own_metadata(instance_name, field_name, 1)),
                false => Place::Valid(instance.path.clone()),
            });
        }
        if !metadata {
            let path = instance.path.clone();
            let field = self.field_of(ty, field_name, span, reader)?;
            return Some(at(&format!("{path}.{}", field.ident), &field));
        }
        let field = self.field_of(ty, field_name, span, reader)?;
        let key = (instance_name.to_owned(), field_name.to_owned());
        let known = self.aliases.get(&key).and_then(|name| standard(name)).or_else(|| {
            STANDARD_INSTANCES.contains(&instance_name).then(|| standard(field_name)).flatten()
        });
        if let Some((name, bits)) = known {
            let text = format!("standard_metadata.{name}");
            return Some(Place::Data { text, bits, signed: false });
        }
        if instance_name == "standard_metadata" && field_name == "parser_error" {
            return Some(Place::Error("standard_metadata.parser_error".to_owned()));
        }
        if field.variable {
            return reader.unsupported(
                span,
                format!("a variable field in the metadata `{instance_name}` is not supported"),
            );
        }
        let text = self.own_metadata(instance_name, field_name, field.bits);
        Some(Place::Data { text, bits: field.bits, signed: field.signed })
    }

    /// The metadata of the program for a field.
    fn own_metadata(&mut self, instance: &str, field: &str, bits: u32) -> String {
        let names = &mut self.metadata_names;
        let key = (instance.to_owned(), field.to_owned());
        let wanted =
            if field == "$valid$" { format!("{instance}_valid") } else { field.to_owned() };
        let new = || (names.field(&wanted), bits, BTreeSet::new());
        let (ident, ..) = self.metadata.entry(key).or_insert_with(new);
        format!("meta.{ident}")
    }

    /// Puts user metadata into a list of fields that clones keep; anything else stays as the device keeps it, as in a
    /// list of a source.
    pub(super) fn keep(&mut self, json: &Json, list: u32, reader: &mut Reader<'_>) {
        let Some((instance, field)) = reader.pair(json) else { return };
        let key = (instance.to_owned(), field.to_owned());
        if self.field(json, reader).is_some()
            && let Some((.., lists)) = self.metadata.get_mut(&key)
        {
            lists.insert(list);
        }
    }

    /// Declarations of header types and unions.
    pub(super) fn declare(
        &self,
        described: Option<&Info>,
        reader: &mut Reader<'_>,
        span: SourceSpan,
        code: &mut super::code::Code,
    ) {
        let controllers = match described {
            Some(info) => controllers::described(&self.types, info, reader, span),
            None => controllers::named(&self.types),
        };
        for (at, ty) in self.types.iter().enumerate().filter(|(_, ty)| ty.used) {
            if let Some(kind) = controllers.iter().position(|one| *one == Some(at)) {
                let text = format!("@controller_header({})", quoted(controllers::KINDS[kind]));
                code.put(&text, ty.span);
            }
            code.put(&format!("header {} {{", ty.ident), ty.span);
            for field in &ty.fields {
                let kind = if field.variable { "varbit" } else { "bit" };
                let mut text = format!("{kind}<{}> {};", field.bits, field.ident);
                if field.ident != field.name {
                    text = format!("@name({}) {text}", quoted(&field.name));
                }
                code.put(&text, ty.span);
            }
            code.put("}", ty.span);
        }
        for ty in &self.union_types {
            code.put(&format!("header_union {} {{", ty.ident), ty.span);
            for (_, ident, member) in &ty.members {
                code.put(&format!("{} {ident};", self.types[*member].ident), ty.span);
            }
            code.put("}", ty.span);
        }
    }

    /// The structs of all headers and of all metadata that is used.
    pub(super) fn structs(&self, code: &mut super::code::Code, span: SourceSpan) {
        code.put("struct Headers {", span);
        for member in &self.members {
            code.put(&member.text, member.span);
        }
        code.put("} struct Metadata {", span);
        for (ident, bits, lists) in self.metadata.values() {
            if !lists.is_empty() {
                let lists: Vec<String> = lists.iter().map(u32::to_string).collect();
                code.put(&format!("@field_list({})", lists.join(", ")), span);
            }
            code.put(&format!("bit<{bits}> {ident};"), span);
        }
        code.put("}", span);
    }
}

/// Names of the headers that are extracted from packets, or emitted.
fn in_packets(json: &Json) -> HashSet<&str> {
    fn items<'j>(json: &'j Json, key: &str) -> &'j [Json] {
        match json.get(key) {
            Some(Json { value: Value::List(items), .. }) => items,
            _ => &[],
        }
    }
    let states = items(json, "parsers").iter().flat_map(|parser| items(parser, "parse_states"));
    let ops = states.flat_map(|state| items(state, "parser_ops"));
    let extracts = ops.filter(|op| op.text_of("op").is_some_and(|op| op.starts_with("extract")));
    let extracted = extracts.filter_map(|op| items(op, "parameters").first()?.text_of("value"));
    let order = items(json, "deparsers").iter().flat_map(|deparser| items(deparser, "order"));
    extracted.chain(order.filter_map(Json::as_text)).collect()
}

/// A field at a path.
pub(super) fn at(path: &str, field: &Field) -> Place {
    match field.variable {
        true => Place::Variable(path.to_owned()),
        false => Place::Data { text: path.to_owned(), bits: field.bits, signed: field.signed },
    }
}

/// A field of v1model's standard metadata.
fn standard(name: &str) -> Option<(&'static str, u32)> {
    STANDARD.into_iter().find(|(known, _)| *known == name)
}

/// Reports a name that nothing has, for a reader that has no value then.
pub(super) fn unknown<'n, T>(
    reader: &mut Reader<'_>,
    span: SourceSpan,
    what: &str,
    name: &str,
    known: impl Iterator<Item = &'n str>,
) -> Option<T> {
    let mut known: Vec<&str> = known.collect();
    known.sort_unstable();
    // Inside of the quotes.
    let quoted = span.end as usize == span.start as usize + name.len() + 2;
    let span = match quoted {
        true => SourceSpan { start: span.start + 1, end: span.end - 1, ..span },
        false => span,
    };
    let text = format!("there is no {what} `{}`", crate::syntax::shown(name));
    reader.report.error(codes::UNKNOWN, span, text).did_you_mean(name, known);
    None
}
