//! Converts a P4Info that was given with a program to the program's own form: the inverse of [`super::p4_source`].
//!
//! The JSON of bmv2 contains the names of its objects only. What controllers need beyond them (ids set by `@id`, named
//! types, the fields of packets in and out) is in the P4Info that p4c writes beside it.

use std::collections::HashMap;

use wireyard_pipeline::p4info::{
    Action, ActionRef, Doc, Info, Key, Literal, NamedType, Object, ObjectKind, Param, Preamble,
    SelectorSize, Structured, Table, TypeRef, Unit, ValueSet,
};

use super::fit;
use super::proto::p4::config::v1 as p4;

/// The contents of a P4Info.
pub(super) fn info(given: &p4::P4Info) -> Info {
    let mut made = Info::default();
    if let Some(package) = &given.pkg_info {
        made.arch = package.arch.clone();
        made.package_doc = doc(&package.doc);
        made.package_annotations = package.annotations.clone();
        made.package_structured = structured(&package.structured_annotations, literal);
        for (name, text) in [
            ("name", &package.name),
            ("version", &package.version),
            ("organization", &package.organization),
            ("contact", &package.contact),
            ("url", &package.url),
        ] {
            if !text.is_empty() {
                made.package.insert(name.to_owned(), text.clone());
            }
        }
        if let Some(platform) = &package.platform_properties {
            for (name, value) in [
                ("multicast_group_table_size", platform.multicast_group_table_size),
                (
                    "multicast_group_table_total_replicas",
                    platform.multicast_group_table_total_replicas,
                ),
                (
                    "multicast_group_table_max_replicas_per_entry",
                    platform.multicast_group_table_max_replicas_per_entry,
                ),
            ] {
                made.platform.insert(name.to_owned(), value);
            }
        }
    }
    made.actions = given.actions.iter().map(action).collect();
    let actions: HashMap<u32, usize> = given
        .actions
        .iter()
        .enumerate()
        .filter_map(|(at, one)| Some((one.preamble.as_ref()?.id, at)))
        .collect();
    let objects = objects(given, &mut made);
    made.tables = given.tables.iter().map(|one| table(one, &actions, &objects)).collect();
    made.value_sets = given.value_sets.iter().map(value_set).collect();
    for header in &given.controller_packet_metadata {
        let fields = header
            .metadata
            .iter()
            .map(|one| param(one.id, &one.name, one.bitwidth, &one.type_name, &one.annotations));
        made.controller_headers.push((preamble(&header.preamble), fields.collect()));
    }
    if let Some(types) = &given.type_info {
        named_types(types, &mut made);
    }
    made
}

fn literal(one: &p4::Expression) -> Literal {
    match &one.value {
        Some(p4::expression::Value::StringValue(text)) => Literal::Text(text.clone()),
        Some(p4::expression::Value::Int64Value(number)) => Literal::Number(*number),
        Some(p4::expression::Value::BoolValue(flag)) => Literal::Flag(*flag),
        None => Literal::Number(0),
    }
}

fn preamble(given: &Option<p4::Preamble>) -> Preamble {
    let Some(given) = given else { return Preamble::default() };
    Preamble {
        name: given.name.clone(),
        alias: given.alias.clone(),
        id: given.id & 0x00ff_ffff,
        pinned: true,
        doc: doc(&given.doc),
        annotations: given.annotations.clone(),
        structured: structured(&given.structured_annotations, literal),
    }
}

fn doc(given: &Option<p4::Documentation>) -> Option<Doc> {
    given.as_ref().map(|doc| Doc { brief: doc.brief.clone(), description: doc.description.clone() })
}

fn structured(
    all: &[p4::StructuredAnnotation],
    literal: impl Fn(&p4::Expression) -> Literal,
) -> Vec<(String, Structured)> {
    use p4::structured_annotation::Body;
    let one = |one: &p4::StructuredAnnotation| {
        let value = match &one.body {
            Some(Body::KvPairList(list)) => Structured::Pairs(
                list.kv_pairs
                    .iter()
                    .filter_map(|pair| Some((pair.key.clone(), literal(pair.value.as_ref()?))))
                    .collect(),
            ),
            Some(Body::ExpressionList(list)) => {
                Structured::List(list.expressions.iter().map(&literal).collect())
            }
            None => Structured::List(Vec::new()),
        };
        (one.name.clone(), value)
    };
    all.iter().map(one).collect()
}

fn param(
    id: u32,
    name: &str,
    bits: i32,
    type_name: &Option<p4::P4NamedType>,
    annotations: &[String],
) -> Param {
    Param {
        id,
        name: name.to_owned(),
        bits: u32::try_from(bits).unwrap_or(0),
        type_name: type_name.as_ref().map(|named| named.name.clone()),
        doc: None,
        annotations: annotations.to_vec(),
    }
}

fn action(given: &p4::Action) -> Action {
    let params = given.params.iter().map(|one| Param {
        doc: doc(&one.doc),
        ..param(one.id, &one.name, one.bitwidth, &one.type_name, &one.annotations)
    });
    let preamble = preamble(&given.preamble);
    Action { preamble, params: params.collect(), hidden: false }
}

fn key(given: &p4::MatchField) -> Key {
    let kind = fit::match_kind(given).unwrap_or_else(|| "exact".to_owned());
    let field = param(given.id, &given.name, given.bitwidth, &given.type_name, &given.annotations);
    Key { field: Param { doc: doc(&given.doc), ..field }, kind }
}

fn value_set(given: &p4::ValueSet) -> ValueSet {
    ValueSet {
        preamble: preamble(&given.preamble),
        fields: given.r#match.iter().map(key).collect(),
        size: given.size,
    }
}

fn table(given: &p4::Table, actions: &HashMap<u32, usize>, objects: &HashMap<u32, usize>) -> Table {
    use p4::action_ref::Scope;
    use p4::table::IdleTimeoutBehavior;
    let action_ref = |one: &p4::ActionRef| {
        let mut annotations = one.annotations.clone();
        let scope = match Scope::try_from(one.scope) {
            Ok(Scope::TableOnly) => Some("@tableonly"),
            Ok(Scope::DefaultOnly) => Some("@defaultonly"),
            _ => None,
        };
        if let Some(scope) = scope.filter(|scope| !annotations.iter().any(|known| known == scope)) {
            annotations.push(scope.to_owned());
        }
        Some(ActionRef { action: *actions.get(&one.id)?, annotations, structured: Vec::new() })
    };
    let constant = given.const_default_action_id;
    let default = match &given.initial_default_action {
        Some(call) => {
            let values = call.arguments.iter().map(|one| one.value.clone()).collect();
            actions.get(&call.action_id).map(|at| (*at, values, constant == call.action_id))
        }
        None => actions.get(&constant).map(|at| (*at, Vec::new(), true)),
    };
    Table {
        preamble: preamble(&given.preamble),
        keys: given.match_fields.iter().map(key).collect(),
        actions: given.action_refs.iter().filter_map(action_ref).collect(),
        default,
        implementation: objects.get(&given.implementation_id).copied(),
        direct: given
            .direct_resource_ids
            .iter()
            .filter_map(|id| objects.get(id).copied())
            .collect(),
        size: given.size,
        has_timeouts: given.idle_timeout_behavior == IdleTimeoutBehavior::NotifyControl as i32,
        is_const: given.is_const_table,
        has_entries: given.has_initial_entries,
    }
}

/// Objects with state, in the order in which P4Info is generated from them; returns their places by id.
fn objects(given: &p4::P4Info, made: &mut Info) -> HashMap<u32, usize> {
    let mut places = HashMap::new();
    let mut add = |names: &Option<p4::Preamble>, kind: ObjectKind| {
        if let Some(names) = names {
            places.insert(names.id, made.objects.len());
        }
        made.objects.push(Object { preamble: preamble(names), kind });
    };
    let index = |of: &Option<p4::P4NamedType>| of.as_ref().map(|named| named.name.clone());
    for one in &given.counters {
        let kind = ObjectKind::Counter(counted(&one.spec), one.size, index(&one.index_type_name));
        add(&one.preamble, kind);
    }
    for one in &given.direct_counters {
        add(&one.preamble, ObjectKind::DirectCounter(counted(&one.spec)));
    }
    for one in &given.meters {
        let kind = ObjectKind::Meter(metered(&one.spec), one.size, index(&one.index_type_name));
        add(&one.preamble, kind);
    }
    for one in &given.direct_meters {
        add(&one.preamble, ObjectKind::DirectMeter(metered(&one.spec)));
    }
    for one in &given.registers {
        let cell = one.type_spec.as_ref().and_then(type_ref).unwrap_or(TypeRef::Bits(0));
        let kind = ObjectKind::Register(cell, one.size.into(), index(&one.index_type_name));
        add(&one.preamble, kind);
    }
    for one in &given.action_profiles {
        use p4::action_profile::SelectorSizeSemantics as Counted;
        let counted = one.selector_size_semantics.as_ref().map(|counted| match counted {
            Counted::SumOfWeights(_) => SelectorSize::Weights,
            Counted::SumOfMembers(members) => SelectorSize::Members(members.max_member_weight),
        });
        let kind = ObjectKind::Profile(one.with_selector, one.size, one.max_group_size, counted);
        add(&one.preamble, kind);
    }
    for one in &given.digests {
        let data = one.type_spec.as_ref().and_then(type_ref).unwrap_or(TypeRef::Tuple(Vec::new()));
        add(&one.preamble, ObjectKind::Digest(data));
    }
    places
}

fn counted(spec: &Option<p4::CounterSpec>) -> Unit {
    use p4::counter_spec::Unit as From;
    match spec.as_ref().and_then(|spec| From::try_from(spec.unit).ok()) {
        Some(From::Bytes) => Unit::Bytes,
        Some(From::Packets) => Unit::Packets,
        _ => Unit::Both,
    }
}

fn metered(spec: &Option<p4::MeterSpec>) -> Unit {
    use p4::meter_spec::Unit as From;
    match spec.as_ref().and_then(|spec| From::try_from(spec.unit).ok()) {
        Some(From::Bytes) => Unit::Bytes,
        _ => Unit::Packets,
    }
}

fn bitstring(spec: &p4::P4BitstringLikeTypeSpec) -> Option<TypeRef> {
    use p4::p4_bitstring_like_type_spec::TypeSpec;
    let bits = |bits: i32| u32::try_from(bits).unwrap_or(0);
    Some(match spec.type_spec.as_ref()? {
        TypeSpec::Bit(of) => TypeRef::Bits(bits(of.bitwidth)),
        TypeSpec::Int(of) => TypeRef::Signed(bits(of.bitwidth)),
        TypeSpec::Varbit(of) => TypeRef::Variable(bits(of.max_bitwidth)),
    })
}

/// A type; `None` for one that no data of a program has.
fn type_ref(spec: &p4::P4DataTypeSpec) -> Option<TypeRef> {
    use p4::p4_data_type_spec::TypeSpec;
    Some(match spec.type_spec.as_ref()? {
        TypeSpec::Bitstring(of) => bitstring(of)?,
        TypeSpec::Bool(_) => TypeRef::Bool,
        TypeSpec::Error(_) => TypeRef::Error,
        TypeSpec::Tuple(of) => TypeRef::Tuple(of.members.iter().filter_map(type_ref).collect()),
        TypeSpec::Struct(named) => TypeRef::Struct(named.name.clone()),
        TypeSpec::Header(named) => TypeRef::Header(named.name.clone()),
        TypeSpec::Enum(named) => TypeRef::Enum(named.name.clone()),
        TypeSpec::SerializableEnum(named) => TypeRef::Numbers(named.name.clone()),
        TypeSpec::NewType(named) => TypeRef::New(named.name.clone()),
        _ => return None,
    })
}

fn named_types(types: &p4::P4TypeInfo, made: &mut Info) {
    if let Some(error) = &types.error {
        made.errors.clone_from(&error.members);
    }
    for (name, of) in &types.structs {
        let field = |one: &p4::p4_struct_type_spec::Member| {
            Some((one.name.clone(), type_ref(one.type_spec.as_ref()?)?))
        };
        let fields = of.members.iter().filter_map(field).collect();
        made.types.insert(name.clone(), NamedType::Struct(fields));
    }
    for (name, of) in &types.headers {
        let field = |one: &p4::p4_header_type_spec::Member| {
            Some((one.name.clone(), bitstring(one.type_spec.as_ref()?)?))
        };
        let fields = of.members.iter().filter_map(field).collect();
        made.types.insert(name.clone(), NamedType::Header(fields));
    }
    for (name, of) in &types.enums {
        let members = of.members.iter().map(|one| one.name.clone()).collect();
        made.types.insert(name.clone(), NamedType::Enum(members));
    }
    for (name, of) in &types.serializable_enums {
        let bits = of.underlying_type.as_ref().map_or(0, |of| of.bitwidth);
        let members = of.members.iter().map(|one| (one.name.clone(), one.value.clone()));
        let members = NamedType::Numbers(u32::try_from(bits).unwrap_or(0), members.collect());
        made.types.insert(name.clone(), members);
    }
    for (name, of) in &types.new_types {
        use p4::p4_new_type_spec::Representation;
        use p4::p4_new_type_translation::SdnType;
        let named = match &of.representation {
            Some(Representation::OriginalType(of)) => type_ref(of).map(NamedType::New),
            Some(Representation::TranslatedType(of)) => {
                let bits = match of.sdn_type {
                    Some(SdnType::SdnBitwidth(bits)) => u32::try_from(bits).ok(),
                    _ => None,
                };
                Some(NamedType::Translated(of.uri.clone(), bits))
            }
            None => None,
        };
        if let Some(named) = named {
            made.types.insert(name.clone(), named);
        }
    }
}
