//! P4Info of a program in P4-16: the names and ids of its source, as p4c assigns them.
//!
//! It is generated from the checked source (`wireyard_pipeline::p4::info`), so that a program for v1model or PSA has
//! one even if it cannot run here. [`super::info`] returns that of a running program, which is the same if it came from
//! P4.

use wireyard_pipeline::p4::info::{
    ActionRef, Doc, Info, Key, Literal, NamedType, ObjectKind, Param, Preamble, SelectorSize,
    Structured, Table, TypeRef, Unit,
};

use super::proto::p4::config::v1 as p4;
use p4::p4_data_type_spec::TypeSpec as Data;
use p4::p4_ids::Prefix;

pub(super) fn id(prefix: Prefix, preamble: &Preamble) -> u32 {
    (prefix as u32) << 24 | preamble.id
}

fn preamble(prefix: Prefix, of: &Preamble) -> Option<p4::Preamble> {
    Some(p4::Preamble {
        id: id(prefix, of),
        name: of.name.clone(),
        alias: of.alias.clone(),
        doc: doc(&of.doc),
        annotations: of.annotations.clone(),
        structured_annotations: structured(&of.structured),
        ..Default::default()
    })
}

fn doc(of: &Option<Doc>) -> Option<p4::Documentation> {
    of.as_ref().map(|doc| p4::Documentation {
        brief: doc.brief.clone(),
        description: doc.description.clone(),
    })
}

fn structured(all: &[(String, Structured)]) -> Vec<p4::StructuredAnnotation> {
    use p4::expression::Value;
    use p4::structured_annotation::Body;
    let expression = |literal: &Literal| p4::Expression {
        value: Some(match literal {
            Literal::Number(number) => Value::Int64Value(*number),
            Literal::Text(text) => Value::StringValue(text.clone()),
            Literal::Flag(flag) => Value::BoolValue(*flag),
        }),
    };
    let pair = |(key, value): &(String, Literal)| p4::KeyValuePair {
        key: key.clone(),
        value: Some(expression(value)),
    };
    let one = |(name, value): &(String, Structured)| p4::StructuredAnnotation {
        name: name.clone(),
        body: match value {
            Structured::List(list) if list.is_empty() => None,
            Structured::List(list) => Some(Body::ExpressionList(p4::ExpressionList {
                expressions: list.iter().map(expression).collect(),
            })),
            Structured::Pairs(pairs) => Some(Body::KvPairList(p4::KeyValuePairList {
                kv_pairs: pairs.iter().map(pair).collect(),
            })),
        },
        ..Default::default()
    };
    all.iter().map(one).collect()
}

fn named(name: &Option<String>) -> Option<p4::P4NamedType> {
    name.as_ref().map(|name| p4::P4NamedType { name: name.clone() })
}

/// The prefix of an object's id.
fn prefix(kind: &ObjectKind) -> Prefix {
    match kind {
        ObjectKind::Counter(..) => Prefix::Counter,
        ObjectKind::DirectCounter(_) => Prefix::DirectCounter,
        ObjectKind::Meter(..) => Prefix::Meter,
        ObjectKind::DirectMeter(_) => Prefix::DirectMeter,
        ObjectKind::Register(..) => Prefix::Register,
        ObjectKind::Profile(..) => Prefix::ActionProfile,
        ObjectKind::Digest(_) => Prefix::Digest,
    }
}

/// The P4Info.
pub fn p4info(info: &Info) -> p4::P4Info {
    let has_types = !info.types.is_empty() || !info.errors.is_empty();
    let mut made = p4::P4Info {
        // A program without `main` has no architecture, and nothing else.
        pkg_info: (*info != Info::default()).then(|| package(info)),
        tables: info.tables.iter().map(|one| table(info, one)).collect(),
        type_info: has_types.then(|| types(info)),
        ..Default::default()
    };
    for action in info.actions.iter().filter(|action| !action.hidden) {
        let param = |param: &Param| p4::action::Param {
            id: param.id,
            name: param.name.clone(),
            annotations: param.annotations.clone(),
            bitwidth: param.bits as i32,
            doc: doc(&param.doc),
            type_name: named(&param.type_name),
            ..Default::default()
        };
        made.actions.push(p4::Action {
            preamble: preamble(Prefix::Action, &action.preamble),
            params: action.params.iter().map(param).collect(),
        });
    }
    for set in &info.value_sets {
        made.value_sets.push(p4::ValueSet {
            preamble: preamble(Prefix::ValueSet, &set.preamble),
            r#match: set.fields.iter().map(match_field).collect(),
            size: set.size,
        });
    }
    for (names, fields) in &info.controller_headers {
        let field = |field: &Param| p4::controller_packet_metadata::Metadata {
            id: field.id,
            name: field.name.clone(),
            annotations: field.annotations.clone(),
            bitwidth: field.bits as i32,
            type_name: named(&field.type_name),
            ..Default::default()
        };
        made.controller_packet_metadata.push(p4::ControllerPacketMetadata {
            preamble: preamble(Prefix::ControllerHeader, names),
            metadata: fields.iter().map(field).collect(),
        });
    }
    objects(info, &mut made);
    made
}

fn package(info: &Info) -> p4::PkgInfo {
    let package = |name: &str| info.package.get(name).cloned().unwrap_or_default();
    let platform = |name: &str| info.platform.get(name).copied().unwrap_or_default();
    p4::PkgInfo {
        name: package("name"),
        version: package("version"),
        doc: doc(&info.package_doc),
        arch: info.arch.clone(),
        organization: package("organization"),
        contact: package("contact"),
        url: package("url"),
        annotations: info.package_annotations.clone(),
        structured_annotations: structured(&info.package_structured),
        platform_properties: (!info.platform.is_empty()).then(|| p4::PlatformProperties {
            multicast_group_table_size: platform("multicast_group_table_size"),
            multicast_group_table_total_replicas: platform("multicast_group_table_total_replicas"),
            multicast_group_table_max_replicas_per_entry: platform(
                "multicast_group_table_max_replicas_per_entry",
            ),
        }),
        ..Default::default()
    }
}

fn match_field(key: &Key) -> p4::MatchField {
    use p4::match_field::{Match, MatchType};
    let kind = match key.kind.as_str() {
        "exact" => MatchType::Exact,
        "lpm" => MatchType::Lpm,
        "ternary" => MatchType::Ternary,
        "range" => MatchType::Range,
        "optional" => MatchType::Optional,
        _ => MatchType::Unspecified,
    };
    p4::MatchField {
        id: key.field.id,
        name: key.field.name.clone(),
        annotations: key.field.annotations.clone(),
        bitwidth: key.field.bits as i32,
        doc: doc(&key.field.doc),
        r#match: Some(match kind {
            MatchType::Unspecified => Match::OtherMatchType(key.kind.clone()),
            kind => Match::MatchType(kind as i32),
        }),
        type_name: named(&key.field.type_name),
        ..Default::default()
    }
}

fn action_id(info: &Info, at: usize) -> u32 {
    info.actions.get(at).map_or(0, |action| id(Prefix::Action, &action.preamble))
}

pub(super) fn object_id(info: &Info, at: usize) -> u32 {
    info.objects.get(at).map_or(0, |object| id(prefix(&object.kind), &object.preamble))
}

fn table(info: &Info, table: &Table) -> p4::Table {
    use p4::action_ref::Scope;
    use p4::table::IdleTimeoutBehavior;
    let action_ref = |one: &ActionRef| {
        let has = |name: &str| one.annotations.iter().any(|known| known == name);
        let scope = match (has("@tableonly"), has("@defaultonly")) {
            (true, false) => Scope::TableOnly,
            (_, true) => Scope::DefaultOnly,
            _ => Scope::TableAndDefault,
        };
        p4::ActionRef {
            id: action_id(info, one.action),
            scope: scope as i32,
            annotations: one.annotations.clone(),
            structured_annotations: structured(&one.structured),
            ..Default::default()
        }
    };
    let default = table.default.as_ref().map(|(at, values, _)| p4::TableActionCall {
        action_id: action_id(info, *at),
        arguments: info.actions[*at]
            .params
            .iter()
            .zip(values)
            .map(|(param, value)| p4::table_action_call::Argument {
                param_id: param.id,
                value: value.clone(),
            })
            .collect(),
    });
    let constant = table.default.as_ref().filter(|(_, _, is_const)| *is_const);
    let idle = match table.has_timeouts {
        true => IdleTimeoutBehavior::NotifyControl,
        false => IdleTimeoutBehavior::NoTimeout,
    };
    p4::Table {
        preamble: preamble(Prefix::Table, &table.preamble),
        match_fields: table.keys.iter().map(match_field).collect(),
        action_refs: table.actions.iter().map(action_ref).collect(),
        const_default_action_id: constant.map_or(0, |(at, ..)| action_id(info, *at)),
        initial_default_action: default,
        implementation_id: table.implementation.map_or(0, |at| object_id(info, at)),
        direct_resource_ids: table.direct.iter().map(|at| object_id(info, *at)).collect(),
        size: table.size,
        idle_timeout_behavior: idle as i32,
        is_const_table: table.is_const,
        has_initial_entries: table.has_entries,
        other_properties: None,
    }
}

fn objects(info: &Info, made: &mut p4::P4Info) {
    let counter_spec = |unit: Unit| {
        use p4::counter_spec::Unit as To;
        let unit = match unit {
            Unit::Bytes => To::Bytes,
            Unit::Packets => To::Packets,
            Unit::Both => To::Both,
        };
        Some(p4::CounterSpec { unit: unit as i32 })
    };
    let meter_spec = |unit: Unit| {
        use p4::meter_spec::Unit as To;
        let unit = if unit == Unit::Bytes { To::Bytes } else { To::Packets };
        Some(p4::MeterSpec { unit: unit as i32, ..Default::default() })
    };
    let of_table = |at: usize, has: fn(&Table, usize) -> bool| {
        let all = info.tables.iter().filter(move |table| has(table, at));
        all.map(|table| id(Prefix::Table, &table.preamble)).collect::<Vec<u32>>()
    };
    for (at, object) in info.objects.iter().enumerate() {
        let names = preamble(prefix(&object.kind), &object.preamble);
        let direct = || of_table(at, |table, at| table.direct.contains(&at)).first().copied();
        match &object.kind {
            ObjectKind::Counter(unit, size, index) => made.counters.push(p4::Counter {
                preamble: names,
                spec: counter_spec(*unit),
                size: *size,
                index_type_name: named(index),
            }),
            ObjectKind::Meter(unit, size, index) => made.meters.push(p4::Meter {
                preamble: names,
                spec: meter_spec(*unit),
                size: *size,
                index_type_name: named(index),
            }),
            ObjectKind::DirectCounter(unit) => made.direct_counters.push(p4::DirectCounter {
                preamble: names,
                spec: counter_spec(*unit),
                direct_table_id: direct().unwrap_or_default(),
            }),
            ObjectKind::DirectMeter(unit) => made.direct_meters.push(p4::DirectMeter {
                preamble: names,
                spec: meter_spec(*unit),
                direct_table_id: direct().unwrap_or_default(),
            }),
            ObjectKind::Register(cell, size, index) => made.registers.push(p4::Register {
                preamble: names,
                type_spec: Some(data(cell)),
                size: *size as i32,
                index_type_name: named(index),
            }),
            ObjectKind::Profile(with_selector, size, max_group_size, counted) => {
                made.action_profiles.push(p4::ActionProfile {
                    preamble: names,
                    table_ids: of_table(at, |table, at| table.implementation == Some(at)),
                    with_selector: *with_selector,
                    size: *size,
                    max_group_size: *max_group_size,
                    selector_size_semantics: counted.map(selector_size),
                    ..Default::default()
                });
            }
            ObjectKind::Digest(spec) => {
                made.digests.push(p4::Digest { preamble: names, type_spec: Some(data(spec)) });
            }
        }
    }
}

fn selector_size(counted: SelectorSize) -> p4::action_profile::SelectorSizeSemantics {
    use p4::action_profile::{SelectorSizeSemantics as Counted, SumOfMembers, SumOfWeights};
    match counted {
        SelectorSize::Weights => Counted::SumOfWeights(SumOfWeights {}),
        SelectorSize::Members(max_member_weight) => {
            Counted::SumOfMembers(SumOfMembers { max_member_weight })
        }
    }
}

fn bitstring(ty: &TypeRef) -> Option<p4::P4BitstringLikeTypeSpec> {
    use p4::p4_bitstring_like_type_spec::TypeSpec;
    let spec = match ty {
        TypeRef::Bits(bits) => TypeSpec::Bit(p4::P4BitTypeSpec { bitwidth: *bits as i32 }),
        TypeRef::Signed(bits) => TypeSpec::Int(p4::P4IntTypeSpec { bitwidth: *bits as i32 }),
        TypeRef::Variable(bits) => {
            TypeSpec::Varbit(p4::P4VarbitTypeSpec { max_bitwidth: *bits as i32 })
        }
        _ => return None,
    };
    Some(p4::P4BitstringLikeTypeSpec { type_spec: Some(spec), ..Default::default() })
}

fn data(ty: &TypeRef) -> p4::P4DataTypeSpec {
    let name = |name: &String| p4::P4NamedType { name: name.clone() };
    let spec = match ty {
        TypeRef::Bool => Data::Bool(p4::P4BoolType {}),
        TypeRef::Error => Data::Error(p4::P4ErrorType {}),
        TypeRef::Tuple(parts) => {
            Data::Tuple(p4::P4TupleTypeSpec { members: parts.iter().map(data).collect() })
        }
        TypeRef::Struct(known) => Data::Struct(name(known)),
        TypeRef::Header(known) => Data::Header(name(known)),
        TypeRef::New(known) => Data::NewType(name(known)),
        TypeRef::Enum(known) => Data::Enum(name(known)),
        TypeRef::Numbers(known) => Data::SerializableEnum(name(known)),
        TypeRef::Bits(_) | TypeRef::Signed(_) | TypeRef::Variable(_) => {
            Data::Bitstring(bitstring(ty).unwrap_or_default())
        }
    };
    p4::P4DataTypeSpec { type_spec: Some(spec) }
}

fn types(info: &Info) -> p4::P4TypeInfo {
    let mut made = p4::P4TypeInfo::default();
    let errors = || p4::P4ErrorTypeSpec { members: info.errors.clone() };
    made.error = (!info.errors.is_empty()).then(errors);
    for (name, ty) in &info.types {
        let name = name.clone();
        match ty {
            NamedType::Struct(fields) => {
                let member = |(name, ty): &(String, TypeRef)| p4::p4_struct_type_spec::Member {
                    name: name.clone(),
                    type_spec: Some(data(ty)),
                };
                let members = fields.iter().map(member).collect();
                made.structs.insert(name, p4::P4StructTypeSpec { members, ..Default::default() });
            }
            NamedType::Header(fields) => {
                let member = |(name, ty): &(String, TypeRef)| p4::p4_header_type_spec::Member {
                    name: name.clone(),
                    type_spec: bitstring(ty),
                };
                let members = fields.iter().map(member).collect();
                made.headers.insert(name, p4::P4HeaderTypeSpec { members, ..Default::default() });
            }
            NamedType::Enum(members) => {
                let member = |name: &String| p4::p4_enum_type_spec::Member {
                    name: name.clone(),
                    ..Default::default()
                };
                let members = members.iter().map(member).collect();
                made.enums.insert(name, p4::P4EnumTypeSpec { members, ..Default::default() });
            }
            NamedType::Numbers(bits, members) => {
                let member = |(name, value): &(String, Vec<u8>)| {
                    p4::p4_serializable_enum_type_spec::Member {
                        name: name.clone(),
                        value: value.clone(),
                        ..Default::default()
                    }
                };
                let spec = p4::P4SerializableEnumTypeSpec {
                    underlying_type: Some(p4::P4BitTypeSpec { bitwidth: *bits as i32 }),
                    members: members.iter().map(member).collect(),
                    ..Default::default()
                };
                made.serializable_enums.insert(name, spec);
            }
            NamedType::New(base) => {
                drop(made.new_types.insert(name, new_type(Ok(data(base)))));
            }
            NamedType::Translated(uri, bits) => {
                drop(made.new_types.insert(name, new_type(Err((uri, *bits)))));
            }
        }
    }
    made
}

/// A type defined by another one, or a translated one: its URI and bits (`None` for a text).
fn new_type(of: Result<p4::P4DataTypeSpec, (&String, Option<u32>)>) -> p4::P4NewTypeSpec {
    use p4::p4_new_type_spec::Representation;
    use p4::p4_new_type_translation::{SdnString, SdnType};
    let representation = match of {
        Ok(data) => Representation::OriginalType(data),
        Err((uri, bits)) => Representation::TranslatedType(p4::P4NewTypeTranslation {
            uri: uri.clone(),
            sdn_type: Some(match bits {
                Some(bits) => SdnType::SdnBitwidth(bits as i32),
                None => SdnType::SdnString(SdnString {}),
            }),
        }),
    };
    p4::P4NewTypeSpec { representation: Some(representation), ..Default::default() }
}
