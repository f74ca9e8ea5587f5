//! Ids of a program that came from P4: those of its P4Info, for each declaration of the compiled program.
//!
//! Objects that P4Info does not list (`@hidden`, and those that lowering creates) have id 0, so that controllers cannot
//! refer to them.

use wireyard_pipeline::ir::{
    Counter, Digest, Header, Meter, Program, Register, Table as IrTable, ValueSet,
};
use wireyard_pipeline::p4info::{Info, ObjectKind, Origin, Preamble, Table};

use super::info::Ids;
use super::p4_source::{id, object_id};
use super::proto::p4::config::v1::p4_ids::Prefix;

/// The ids of a program.
pub fn ids(program: &Program, origin: &Origin) -> Ids {
    let info = &origin.info;
    let described = |table: &IrTable| {
        let full = origin.tables.get(&table.name)?;
        info.tables.iter().find(|one| one.preamble.name == *full)
    };
    let of_table = |id: &dyn Fn(&IrTable, &Table) -> u32| {
        let one = |table: &IrTable| described(table).map_or(0, |known| id(table, known));
        program.tables.iter().map(one).collect::<Vec<u32>>()
    };
    let direct = |wanted: fn(&ObjectKind) -> bool| {
        move |_: &IrTable, known: &Table| {
            let mut all = known.direct.iter();
            let found = all.find(|at| info.objects.get(**at).is_some_and(|one| wanted(&one.kind)));
            found.map_or(0, |at| object_id(info, *at))
        }
    };
    Ids {
        tables: of_table(&|_, known| id(Prefix::Table, &known.preamble)),
        actions: program.actions.iter().map(|one| action(info, origin, &one.name)).collect(),
        profiles: of_table(&|table, known| match (&table.selector, known.implementation) {
            (Some(_), Some(at)) => object_id(info, at),
            _ => 0,
        }),
        direct_counters: of_table(&direct(|kind| matches!(kind, ObjectKind::DirectCounter(_)))),
        direct_meters: of_table(&direct(|kind| matches!(kind, ObjectKind::DirectMeter(_)))),
        ..others(program, origin)
    }
}

/// Ids of objects that belong to no table.
fn others(program: &Program, origin: &Origin) -> Ids {
    let info = &origin.info;
    let object = |full: Option<&String>, wanted: fn(&ObjectKind) -> bool| {
        let mut all = info.objects.iter();
        let at = all.position(|one| Some(&one.preamble.name) == full && wanted(&one.kind));
        at.map_or(0, |at| object_id(info, at))
    };
    let counter = |one: &Counter| {
        object(origin.objects.get(&one.name), |kind| matches!(kind, ObjectKind::Counter(..)))
    };
    let meter = |one: &Meter| {
        object(origin.objects.get(&one.name), |kind| matches!(kind, ObjectKind::Meter(..)))
    };
    let register = |one: &Register| {
        object(origin.objects.get(&one.name), |kind| matches!(kind, ObjectKind::Register(..)))
    };
    let digest = |one: &Digest| {
        object(origin.digests.get(&one.name), |kind| matches!(kind, ObjectKind::Digest(_)))
    };
    let value_set = |one: &ValueSet| {
        let all = info.value_sets.iter().map(|one| &one.preamble);
        by_name(Prefix::ValueSet, all, origin.value_sets.get(&one.name))
    };
    let controller = |header: &Header| {
        let name = header.controller.map(|controller| controller.name().to_owned());
        let all = info.controller_headers.iter().map(|(one, _)| one);
        by_name(Prefix::ControllerHeader, all, name.as_ref())
    };
    Ids {
        counters: program.counters.iter().map(counter).collect(),
        meters: program.meters.iter().map(meter).collect(),
        registers: program.registers.iter().map(register).collect(),
        digests: program.digests.iter().map(digest).collect(),
        value_sets: program.value_sets.iter().map(value_set).collect(),
        controllers: program.headers.iter().map(controller).collect(),
        ..Ids::default()
    }
}

fn by_name<'a>(
    prefix: Prefix,
    mut all: impl Iterator<Item = &'a Preamble>,
    full: Option<&String>,
) -> u32 {
    all.find(|one| Some(&one.name) == full).map_or(0, |one| id(prefix, one))
}

/// The id of an action. The action without effect, of tables that list no other as their default, is P4's `NoAction`.
fn action(info: &Info, origin: &Origin, name: &str) -> u32 {
    let none = (name == "nop").then(|| "NoAction".to_owned());
    let full = origin.actions.get(name).or(none.as_ref());
    by_name(Prefix::Action, info.actions.iter().map(|one| &one.preamble), full)
}
