//! Counters, meters, registers, value sets.

use wireyard_pipeline::ids::{Id, RegisterId, ValueSetId};
use wireyard_pipeline::ir::{MatchField, MeterKind, SetMember};
use wireyard_tables::counter::Count;
use wireyard_tables::meter::MeterConfig;

use super::{Result, bits, entry, invalid, unsigned};
use crate::control::{ControlError, Entity, EntryKey};
use crate::p4runtime::proto::p4::v1 as p4;
use crate::p4runtime::schema::Schema;

/// Packets and bytes of a message.
pub fn count(data: &p4::CounterData) -> Result<Count> {
    let packets = unsigned(data.packet_count, "packet_count")?;
    Ok(Count { packets, bytes: unsigned(data.byte_count, "byte_count")? })
}

/// A count as a message.
pub fn count_message(count: Count) -> p4::CounterData {
    let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    p4::CounterData { byte_count: signed(count.bytes), packet_count: signed(count.packets) }
}

/// Rates of a meter of this kind.
pub fn meter_config(kind: MeterKind, config: &p4::MeterConfig) -> Result<MeterConfig> {
    let (cir, cbs) = (unsigned(config.cir, "cir")?, unsigned(config.cburst, "cburst")?);
    let (pir, pbs) = (unsigned(config.pir, "pir")?, unsigned(config.pburst, "pburst")?);
    let ebs = unsigned(config.eburst, "eburst")?;
    if kind.two_rates {
        if ebs != 0 {
            return invalid("eburst is for meters of a single rate; this one has two");
        }
        return Ok(MeterConfig::TwoRate { cir, cbs, pir, pbs });
    }
    // The peak rate is the committed rate; before 1.5 the peak burst was the excess burst.
    if pir != 0 && pir != cir {
        return invalid("pir is for meters of two rates; this one has one: pir is cir");
    }
    let is_same = pir == cir && pbs == cbs;
    Ok(MeterConfig::SingleRate { cir, cbs, ebs: if ebs == 0 && !is_same { pbs } else { ebs } })
}

/// Refuses counts by colour, which the meters of this switch do not have.
pub fn no_colours(data: Option<&p4::MeterCounterData>) -> Result<()> {
    let text = "meters of this switch have no counters by colour: counter_data";
    data.map_or(Ok(()), |_| Err(ControlError::Unimplemented(text.into())))
}

/// Rates as a message.
pub fn meter_message(config: &MeterConfig) -> p4::MeterConfig {
    let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    match *config {
        MeterConfig::TwoRate { cir, cbs, pir, pbs } => p4::MeterConfig {
            cir: signed(cir),
            cburst: signed(cbs),
            pir: signed(pir),
            pburst: signed(pbs),
            eburst: 0,
        },
        MeterConfig::SingleRate { cir, cbs, ebs } => p4::MeterConfig {
            cir: signed(cir),
            cburst: signed(cbs),
            pir: signed(cir),
            pburst: signed(cbs),
            eburst: signed(ebs),
        },
    }
}

/// The index of a cell; `None` for every cell.
pub fn index(index: Option<&p4::Index>) -> Result<Option<u64>> {
    index.map(|index| unsigned(index.index, "the index")).transpose()
}

/// The index of a cell as a message.
pub fn index_message(index: u64) -> Option<p4::Index> {
    Some(p4::Index { index: index as i64 })
}

/// The values of a register entry, one for each cell.
pub fn cells(schema: &Schema, register: RegisterId, data: &p4::P4Data) -> Result<Vec<u64>> {
    let declared = &schema.program.registers[register];
    let of_register = || format!("register {}", declared.name);
    let count = declared.cells.len();
    let Some(found) = schema.forms.cells(register.index(), data, count, of_register)? else {
        let shape = match declared.cells.len() {
            _ if schema.program.origin.is_some() => "data of its type in P4Info".to_owned(),
            1 => "a bitstring".to_owned(),
            count => format!("a struct of {count} bitstrings"),
        };
        return invalid(format!("an entry of register {} is {shape}", declared.name));
    };
    let cell = |(bytes, cell): (&Vec<u8>, &wireyard_pipeline::ir::code::Local)| {
        let what = || format!("register {}, cell {}", declared.name, cell.name);
        Ok(bits(bytes, cell.bits, what)? as u64)
    };
    found.iter().zip(&declared.cells).map(cell).collect()
}

/// A register entry as a message.
pub fn register_message(
    schema: &Schema,
    register: RegisterId,
    index: u64,
    cells: &[u64],
) -> p4::RegisterEntry {
    let values: Vec<u128> = cells.iter().map(|cell| u128::from(*cell)).collect();
    p4::RegisterEntry {
        register_id: schema.ids.registers[register.index()],
        index: index_message(index),
        data: Some(schema.forms.register(register.index(), &values)),
    }
}

/// All members of a value set.
pub fn value_set(
    schema: &Schema,
    set: ValueSetId,
    members: &[p4::ValueSetMember],
) -> Result<Entity> {
    let declared = &schema.program.value_sets[set];
    let what = format!("value set {}", declared.name);
    let keys: Vec<&MatchField> = declared.keys.iter().collect();
    let fields = &schema.forms.members[set.index()];
    let member = |one: &p4::ValueSetMember| entry::matches(&what, &keys, fields, &one.r#match);
    let members = members.iter().map(member).collect::<Result<Vec<SetMember>>>()?;
    let mut seen = std::collections::HashSet::new();
    if !members.iter().all(|member| seen.insert(member)) {
        return Err(ControlError::AlreadyExists(format!("{what}: a member is given twice")));
    }
    Ok(Entity::ValueSet { set, members })
}

/// A value set as a message.
pub fn value_set_message(
    schema: &Schema,
    set: ValueSetId,
    members: &[SetMember],
) -> p4::ValueSetEntry {
    let keys = &schema.program.value_sets[set].keys;
    let forms = &schema.forms.members[set.index()];
    let member = |member: &SetMember| p4::ValueSetMember {
        r#match: entry::messages(keys.iter(), forms, member),
    };
    p4::ValueSetEntry {
        value_set_id: schema.ids.value_sets[set.index()],
        members: members.iter().map(member).collect(),
    }
}

/// The key of a direct counter to be written, and its new value; `None` leaves it unchanged.
pub fn direct_counter(
    schema: &Schema,
    entry: &p4::DirectCounterEntry,
) -> Result<(EntryKey, Option<Count>)> {
    let Some(named) = &entry.table_entry else {
        return invalid("a direct counter names its table entry");
    };
    let table = schema.table(named.table_id)?;
    let key = entry::key(schema, table, named)?;
    Ok((key, entry.data.as_ref().map(count).transpose()?))
}

/// The direct meter of an entry, to be written; without rates everything is green.
pub fn direct_meter(schema: &Schema, entry: &p4::DirectMeterEntry) -> Result<Entity> {
    let Some(named) = &entry.table_entry else {
        return invalid("a direct meter names its table entry");
    };
    let table = schema.table(named.table_id)?;
    let declared = schema.declared(table);
    let Some(kind) = declared.meter else {
        return invalid(format!("table {} has no direct meter", declared.name));
    };
    no_colours(entry.counter_data.as_ref())?;
    let config = entry.config.as_ref().map(|config| meter_config(kind, config)).transpose()?;
    Ok(Entity::DirectMeter { key: entry::key(schema, table, named)?, config })
}
