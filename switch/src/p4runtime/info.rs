//! P4Info: the objects of a program that are visible to controllers, with their ids.
//!
//! Names are those of the program; all names of a program share one space, so an alias is the name. Objects that belong
//! to a table are named after it: `fib.profile`, `fib.counter`, `fib.meter`. Keys, parameters and fields are numbered
//! from 1 in the order of their declaration. A program that came from P4 has the names, ids and types of its source
//! ([`super::p4_source`]).

use std::collections::BTreeMap;

use wireyard_pipeline::ids::{ActionId, Id, IdVec, TableId};
use wireyard_pipeline::ir::{
    self, Digest, Header, MeterKind, Param, Program, Register, Table as IrTable,
};
use wireyard_pipeline::state::group_size_max;
use wireyard_tables::MatchKind;

use super::ids::assign;
use super::proto::p4::config::v1 as p4;
use super::{p4_ids, p4_source};
use p4::match_field::MatchType;
use p4::p4_ids::Prefix;

/// Ids of a program's objects, in the order of its declarations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ids {
    /// Tables.
    pub tables: Vec<u32>,
    /// Actions.
    pub actions: Vec<u32>,
    /// Value sets.
    pub value_sets: Vec<u32>,
    /// Action profiles by table; 0 where a table has none.
    pub profiles: Vec<u32>,
    /// Direct counters by table; 0 where a table has none.
    pub direct_counters: Vec<u32>,
    /// Direct meters by table; 0 where a table has none.
    pub direct_meters: Vec<u32>,
    /// Counter arrays.
    pub counters: Vec<u32>,
    /// Meter arrays.
    pub meters: Vec<u32>,
    /// Registers.
    pub registers: Vec<u32>,
    /// Digests.
    pub digests: Vec<u32>,
    /// Controller headers by header type; 0 for other headers.
    pub controllers: Vec<u32>,
}

/// Ids of one kind for the items for which `name` returns a name; 0 for the others.
fn numbered<I: Id, T>(
    pinned: &BTreeMap<String, u32>,
    prefix: Prefix,
    items: &IdVec<I, T>,
    name: impl Fn(&T) -> Option<String>,
) -> Vec<u32> {
    let names: Vec<Option<String>> = items.iter().map(name).collect();
    let ids = assign(prefix, names.iter().flatten().map(String::as_str), pinned);
    names.iter().map(|name| name.as_ref().map_or(0, |name| ids[name.as_str()])).collect()
}

fn profile_name(table: &IrTable) -> Option<String> {
    table.selector.as_ref().map(|_| format!("{}.profile", table.name))
}

fn counter_name(table: &IrTable) -> Option<String> {
    table.counters.then(|| format!("{}.counter", table.name))
}

fn meter_name(table: &IrTable) -> Option<String> {
    table.meter.map(|_| format!("{}.meter", table.name))
}

fn controller_name(header: &Header) -> Option<String> {
    header.controller.map(|controller| controller.name().to_owned())
}

impl Ids {
    /// The ids of a program.
    pub fn of(program: &Program) -> Ids {
        if let Some(origin) = &program.origin {
            return p4_ids::ids(program, origin);
        }
        use Prefix as P;
        let tables = &program.tables;
        Ids {
            tables: numbered(&program.ids, P::Table, tables, |table| Some(table.name.clone())),
            actions: numbered(&program.ids, P::Action, &program.actions, |action| {
                Some(action.name.clone())
            }),
            value_sets: numbered(&program.ids, P::ValueSet, &program.value_sets, |set| {
                Some(set.name.clone())
            }),
            profiles: numbered(&program.ids, P::ActionProfile, tables, profile_name),
            direct_counters: numbered(&program.ids, P::DirectCounter, tables, counter_name),
            direct_meters: numbered(&program.ids, P::DirectMeter, tables, meter_name),
            counters: numbered(&program.ids, P::Counter, &program.counters, |one| {
                Some(one.name.clone())
            }),
            meters: numbered(&program.ids, P::Meter, &program.meters, |one| Some(one.name.clone())),
            registers: numbered(&program.ids, P::Register, &program.registers, |one| {
                Some(one.name.clone())
            }),
            digests: numbered(&program.ids, P::Digest, &program.digests, |one| {
                Some(one.name.clone())
            }),
            controllers: numbered(
                &program.ids,
                P::ControllerHeader,
                &program.headers,
                controller_name,
            ),
        }
    }
}

/// The P4Info of a program.
pub fn p4info(program: &Program) -> p4::P4Info {
    if let Some(origin) = &program.origin {
        return p4_source::p4info(&origin.info);
    }
    let ids = Ids::of(program);
    let mut types = p4::P4TypeInfo::default();
    let registers = zip(&program.registers, &ids.registers)
        .map(|(register, id)| self::register(register, id, &mut types))
        .collect();
    let digests = zip(&program.digests, &ids.digests)
        .map(|(digest, id)| self::digest(digest, id, &mut types))
        .collect();
    p4::P4Info {
        pkg_info: Some(p4::PkgInfo {
            name: program.name.clone(),
            arch: "wireyard".into(),
            ..Default::default()
        }),
        tables: program.tables.entries().map(|(id, _)| table(program, &ids, id)).collect(),
        actions: zip(&program.actions, &ids.actions).map(|(one, id)| action(one, id)).collect(),
        action_profiles: profiles(program, &ids),
        counters: zip(&program.counters, &ids.counters)
            .map(|(counter, id)| p4::Counter {
                preamble: preamble(id, &counter.name),
                spec: both(),
                size: counter.size.into(),
                index_type_name: None,
            })
            .collect(),
        direct_counters: direct(program, &ids.direct_counters, counter_name)
            .map(|(table, id, name)| p4::DirectCounter {
                preamble: preamble(id, &name),
                spec: both(),
                direct_table_id: ids.tables[table.index()],
            })
            .collect(),
        meters: zip(&program.meters, &ids.meters)
            .map(|(meter, id)| p4::Meter {
                preamble: preamble(id, &meter.name),
                spec: Some(meter_spec(meter.kind)),
                size: meter.size.into(),
                index_type_name: None,
            })
            .collect(),
        direct_meters: direct(program, &ids.direct_meters, meter_name)
            .map(|(table, id, name)| p4::DirectMeter {
                preamble: preamble(id, &name),
                spec: program.tables[table].meter.map(meter_spec),
                direct_table_id: ids.tables[table.index()],
            })
            .collect(),
        controller_packet_metadata: controllers(program, &ids),
        value_sets: zip(&program.value_sets, &ids.value_sets)
            .map(|(set, id)| p4::ValueSet {
                preamble: preamble(id, &set.name),
                // A member that is not a structure is a field without a name, as in the output of p4c.
                r#match: (1..)
                    .zip(&set.keys)
                    .map(|(id, key)| match_field(id, &key.name, key.bits, match_type(key.kind)))
                    .collect(),
                size: set.size as i32,
            })
            .collect(),
        registers,
        digests,
        externs: Vec::new(),
        type_info: (types != p4::P4TypeInfo::default()).then_some(types),
    }
}

fn zip<'a, I: Id, T>(items: &'a IdVec<I, T>, ids: &'a [u32]) -> impl Iterator<Item = (&'a T, u32)> {
    items.iter().zip(ids.iter().copied())
}

/// Objects that belong to a table: the table, the id, the name.
fn direct<'a>(
    program: &'a Program,
    ids: &'a [u32],
    name: impl Fn(&IrTable) -> Option<String> + 'a,
) -> impl Iterator<Item = (TableId, u32, String)> + 'a {
    let tables = program.tables.entries().zip(ids);
    tables.filter_map(move |((table, declared), id)| Some((table, *id, name(declared)?)))
}

fn preamble(id: u32, name: &str) -> Option<p4::Preamble> {
    Some(p4::Preamble { id, name: name.into(), alias: name.into(), ..Default::default() })
}

fn both() -> Option<p4::CounterSpec> {
    Some(p4::CounterSpec { unit: p4::counter_spec::Unit::Both as i32 })
}

fn meter_spec(kind: MeterKind) -> p4::MeterSpec {
    use p4::meter_spec::{Type, Unit};
    let unit = if kind.packets { Unit::Packets } else { Unit::Bytes };
    let r#type = if kind.two_rates { Type::TwoRateThreeColor } else { Type::SingleRateThreeColor };
    p4::MeterSpec { unit: unit as i32, r#type: r#type as i32 }
}

fn match_field(id: u32, name: &str, bits: u32, kind: MatchType) -> p4::MatchField {
    p4::MatchField {
        id,
        name: name.into(),
        bitwidth: bits as i32,
        r#match: Some(p4::match_field::Match::MatchType(kind as i32)),
        ..Default::default()
    }
}

fn match_type(kind: MatchKind) -> MatchType {
    match kind {
        MatchKind::Exact => MatchType::Exact,
        MatchKind::Lpm => MatchType::Lpm,
        MatchKind::Ternary => MatchType::Ternary,
        MatchKind::Range => MatchType::Range,
        MatchKind::Optional => MatchType::Optional,
    }
}

fn table(program: &Program, ids: &Ids, id: TableId) -> p4::Table {
    use p4::table::IdleTimeoutBehavior;
    let (declared, index) = (&program.tables[id], id.index());
    let action = |action: ActionId| ids.actions[action.index()];
    let refs = declared.actions.iter().map(|one| action_ref(action(*one)));
    let notifies = match declared.idle_timeout_ms {
        Some(_) => IdleTimeoutBehavior::NotifyControl,
        None => IdleTimeoutBehavior::NoTimeout,
    };
    let has_profile = declared.selector.is_some();
    let direct = [ids.direct_counters[index], ids.direct_meters[index]];
    let keys = (1..).zip(&declared.keys);
    p4::Table {
        preamble: preamble(ids.tables[index], &declared.name),
        match_fields: keys
            .map(|(id, key)| match_field(id, &key.name, key.bits, match_type(key.kind)))
            .collect(),
        action_refs: refs.collect(),
        const_default_action_id: match declared.const_default {
            true => action(declared.default.action),
            false => 0,
        },
        initial_default_action: (!has_profile).then(|| default_action(program, ids, declared)),
        implementation_id: ids.profiles[index],
        direct_resource_ids: direct.into_iter().filter(|id| *id != 0).collect(),
        size: declared.size.into(),
        idle_timeout_behavior: notifies as i32,
        is_const_table: declared.const_entries,
        has_initial_entries: !declared.entries.is_empty(),
        other_properties: None,
    }
}

fn action_ref(id: u32) -> p4::ActionRef {
    p4::ActionRef { id, ..Default::default() }
}

fn default_action(program: &Program, ids: &Ids, table: &IrTable) -> p4::TableActionCall {
    let params = &program.actions[table.default.action].params;
    let arguments = (1..).zip(params.iter().zip(&table.default.args));
    p4::TableActionCall {
        action_id: ids.actions[table.default.action.index()],
        arguments: arguments
            .map(|(param_id, (_, value))| p4::table_action_call::Argument {
                param_id,
                value: super::value::shortest(*value),
            })
            .collect(),
    }
}

fn action(action: &ir::Action, id: u32) -> p4::Action {
    let param = |(id, param): (u32, &Param)| p4::action::Param {
        id,
        name: param.name.clone(),
        bitwidth: param.bits as i32,
        ..Default::default()
    };
    p4::Action {
        preamble: preamble(id, &action.name),
        params: (1..).zip(&action.params).map(param).collect(),
    }
}

fn profiles(program: &Program, ids: &Ids) -> Vec<p4::ActionProfile> {
    use p4::action_profile::{SelectorSizeSemantics, SumOfWeights};
    let profile = |(table, id, name): (TableId, u32, String)| {
        let selector = program.tables[table].selector.as_ref()?;
        Some(p4::ActionProfile {
            preamble: preamble(id, &name),
            table_ids: vec![ids.tables[table.index()]],
            with_selector: true,
            size: selector.max_members.into(),
            max_group_size: i32::try_from(group_size_max(selector)).unwrap_or(i32::MAX),
            weights_disallowed: false,
            selector_size_semantics: Some(SelectorSizeSemantics::SumOfWeights(SumOfWeights {})),
        })
    };
    direct(program, &ids.profiles, profile_name).filter_map(profile).collect()
}

fn controllers(program: &Program, ids: &Ids) -> Vec<p4::ControllerPacketMetadata> {
    use p4::controller_packet_metadata::Metadata;
    let metadata = |(id, field): (u32, &ir::Field)| Metadata {
        id,
        name: field.name.clone(),
        bitwidth: field.bits as i32,
        ..Default::default()
    };
    let header = |(header, id): (&Header, u32)| {
        Some(p4::ControllerPacketMetadata {
            preamble: preamble(id, header.controller?.name()),
            metadata: (1..).zip(header.declared()).map(metadata).collect(),
        })
    };
    zip(&program.headers, &ids.controllers).filter_map(header).collect()
}

fn bit(bits: u32) -> p4::P4BitstringLikeTypeSpec {
    use p4::p4_bitstring_like_type_spec::TypeSpec;
    let spec = TypeSpec::Bit(p4::P4BitTypeSpec { bitwidth: bits as i32 });
    p4::P4BitstringLikeTypeSpec { type_spec: Some(spec), ..Default::default() }
}

fn bits(width: u32) -> p4::P4DataTypeSpec {
    use p4::p4_data_type_spec::TypeSpec;
    p4::P4DataTypeSpec { type_spec: Some(TypeSpec::Bitstring(bit(width))) }
}

/// A structure with these members, declared under a name.
fn structure<'a>(
    types: &mut p4::P4TypeInfo,
    name: &str,
    members: impl Iterator<Item = (&'a str, u32)>,
) -> p4::P4DataTypeSpec {
    use p4::p4_data_type_spec::TypeSpec;
    let member = |(name, width): (&str, u32)| p4::p4_struct_type_spec::Member {
        name: name.into(),
        type_spec: Some(bits(width)),
    };
    let members = members.map(member).collect();
    let spec = p4::P4StructTypeSpec { members, ..Default::default() };
    types.structs.insert(name.into(), spec);
    let named = p4::P4NamedType { name: name.into() };
    p4::P4DataTypeSpec { type_spec: Some(TypeSpec::Struct(named)) }
}

fn register(register: &Register, id: u32, types: &mut p4::P4TypeInfo) -> p4::Register {
    let cells = register.cells.iter().map(|cell| (cell.name.as_str(), cell.bits));
    let spec = match register.cells.as_slice() {
        [cell] => bits(cell.bits),
        _ => structure(types, &register.name, cells),
    };
    p4::Register {
        preamble: preamble(id, &register.name),
        type_spec: Some(spec),
        size: register.size as i32,
        index_type_name: None,
    }
}

fn digest(digest: &Digest, id: u32, types: &mut p4::P4TypeInfo) -> p4::Digest {
    let fields = digest.fields.iter().map(|field| (field.name.as_str(), field.bits));
    let type_spec = Some(structure(types, &digest.name, fields));
    p4::Digest { preamble: preamble(id, &digest.name), type_spec }
}

/// The objects of a program by id.
#[derive(Clone, Debug, Default)]
pub struct ById(BTreeMap<u32, usize>);

impl ById {
    /// From the ids of one kind, in the order of declaration.
    pub fn of(ids: &[u32]) -> ById {
        let mut places = BTreeMap::new();
        for (at, id) in ids.iter().enumerate().filter(|(_, id)| **id != 0) {
            places.entry(*id).or_insert(at);
        }
        ById(places)
    }

    /// The index of its declaration; the first of several.
    pub fn get(&self, id: u32) -> Option<usize> {
        self.0.get(&id).copied()
    }
}
