//! Table entries.

use wireyard_pipeline::ids::{Id, TableId};
use wireyard_pipeline::ir::{ActionCall, MatchField, Table, layout};
use wireyard_tables::counter::Count;
use wireyard_tables::time::Span;
use wireyard_tables::{Match, MatchKind};

use super::{Result, action, invalid, objects, unsigned};
use crate::control::{ControlError, Entity, EntryKey, TableEntry, Target};
use crate::p4runtime::forms::{self, Field as FieldForm};
use crate::p4runtime::proto::p4::v1 as p4;
use crate::p4runtime::schema::Schema;
use crate::p4runtime::watch;
use crate::ports::PortNumber;
use p4::field_match::FieldMatchType as Field;
use p4::table_action::Type as Does;

/// A translated entry: an entity, or an entry with actions of its own (one-shot programming), for which the server
/// creates members and a group.
#[derive(Debug)]
pub enum Wanted {
    /// An entity of the device.
    Entity(Entity),
    /// An entry for which a target is created.
    OneShot(TableEntry, ActionSet),
}

/// Actions of an entry's own.
#[derive(Debug)]
pub struct ActionSet {
    /// The actions.
    pub actions: Vec<OneShot>,
    /// What its controller named of the selector: see `named_settings`.
    pub settings: i32,
}

/// An action of an action set.
#[derive(Clone, Debug)]
pub struct OneShot {
    /// The action.
    pub call: wireyard_pipeline::ir::ActionCall,
    /// Its weight.
    pub weight: u32,
    /// The action is used only while this port is up.
    pub watch: Option<PortNumber>,
}

/// The match of a key that matches everything, as controllers write it; `None` for kinds without one.
fn dont_care(key: &MatchField) -> Option<Match> {
    match key.kind {
        MatchKind::Exact => None,
        MatchKind::Lpm => Some(Match::Lpm { value: 0, prefix_len: 0 }),
        MatchKind::Ternary => Some(Match::Ternary { value: 0, mask: 0 }),
        MatchKind::Range => Some(Match::Range { lo: 0, hi: layout::ones(key.bits) }),
        MatchKind::Optional => Some(Match::Any),
    }
}

/// The key of an entry.
pub fn key(schema: &Schema, table: TableId, entry: &p4::TableEntry) -> Result<EntryKey> {
    let declared = schema.declared(table);
    if entry.is_default_action {
        let name = &declared.name;
        return invalid(format!("table {name}: its default action has no counter and no meter"));
    }
    let keys: Vec<&MatchField> = declared.keys.iter().map(|key| &key.field).collect();
    let what = format!("table {}", declared.name);
    let matches = matches(&what, &keys, &schema.forms.keys[table.index()], &entry.r#match)?;
    let priority = match u32::try_from(entry.priority) {
        Ok(priority) => priority,
        Err(_) => return invalid(format!("priority is {}; it cannot be negative", entry.priority)),
    };
    Ok(EntryKey { table, matches, priority })
}

/// The matches of all keys, of a table entry or of a member of a value set.
pub(super) fn matches(
    what: &str,
    keys: &[&MatchField],
    fields: &[FieldForm],
    given: &[p4::FieldMatch],
) -> Result<Vec<Match>> {
    // No field is written as `Any`, so it marks a field that was not given.
    let mut matches = vec![Match::Any; keys.len()];
    for field in given {
        let Some(index) = forms::find(fields, field.field_id) else {
            return invalid(format!(
                "{what} has no match field {}: its number of match fields is {}",
                field.field_id,
                keys.len()
            ));
        };
        let found = one_match(what, (keys[index], fields[index]), field)?;
        if std::mem::replace(&mut matches[index], found) != Match::Any {
            return invalid(format!("{what}: {} is given twice", field_name(keys[index])));
        }
    }
    let absent = matches.iter_mut().zip(keys).filter(|(found, _)| **found == Match::Any);
    for (found, key) in absent {
        let Some(all) = dont_care(key) else {
            return invalid(format!("{what}: exact {} is missing", field_name(key)));
        };
        *found = all;
    }
    Ok(matches)
}

/// The name of a field in messages; the only field of a value set may have no name.
fn field_name(key: &MatchField) -> String {
    format!("match field {}", key.name).trim_end().to_owned()
}

fn one_match(
    what: &str,
    (key, form): (&MatchField, FieldForm),
    field: &p4::FieldMatch,
) -> Result<Match> {
    let what = || format!("{what}, {}", field_name(key));
    let value = |bytes: &[u8]| form.read(bytes, key.bits, what);
    let found = match (&field.field_match_type, key.kind) {
        (Some(Field::Exact(exact)), MatchKind::Exact) => Match::Exact(value(&exact.value)?),
        (Some(Field::Optional(optional)), MatchKind::Optional) => {
            Match::Optional(Some(value(&optional.value)?))
        }
        (Some(Field::Lpm(lpm)), MatchKind::Lpm) => {
            let Ok(prefix_len) = u32::try_from(lpm.prefix_len) else {
                return invalid(format!("{}: prefix_len is {}", what(), lpm.prefix_len));
            };
            Match::Lpm { value: value(&lpm.value)?, prefix_len }
        }
        (Some(Field::Ternary(ternary)), MatchKind::Ternary) => {
            Match::Ternary { value: value(&ternary.value)?, mask: value(&ternary.mask)? }
        }
        (Some(Field::Range(range)), MatchKind::Range) => {
            Match::Range { lo: value(&range.low)?, hi: value(&range.high)? }
        }
        _ => return invalid(format!("{}: the match is not {}", what(), key.kind.name())),
    };
    if dont_care(key).is_some_and(|all| all == found) {
        return invalid(format!("{}: leave out a field that matches everything", what()));
    }
    Ok(found)
}

/// The match fields of an entry as messages: those that match everything are omitted.
pub fn entry_matches(schema: &Schema, key: &EntryKey) -> Vec<p4::FieldMatch> {
    let keys = schema.declared(key.table).keys.iter().map(|key| &key.field);
    messages(keys, &schema.forms.keys[key.table.index()], &key.matches)
}

/// Like [`entry_matches`], for keys and forms of any kind.
pub(super) fn messages<'k>(
    keys: impl Iterator<Item = &'k MatchField>,
    forms: &[FieldForm],
    matches: &[Match],
) -> Vec<p4::FieldMatch> {
    use p4::field_match as fm;
    let field = |((form, declared), found): ((&FieldForm, &MatchField), &Match)| {
        let field_id = form.id;
        let value = |value: u128| form.write(value);
        // Commands write one match in several forms; records and messages have one key for one entry.
        let kind = match found.canonical(declared.kind, declared.bits) {
            Match::Exact(v) => Field::Exact(fm::Exact { value: value(v) }),
            Match::Lpm { value: v, prefix_len } => {
                Field::Lpm(fm::Lpm { value: value(v), prefix_len: prefix_len as i32 })
            }
            Match::Ternary { value: v, mask } => {
                Field::Ternary(fm::Ternary { value: value(v), mask: value(mask) })
            }
            Match::Range { lo, hi } => Field::Range(fm::Range { low: value(lo), high: value(hi) }),
            Match::Optional(v) => Field::Optional(fm::Optional { value: value(v?) }),
            Match::Any => return None,
        };
        Some(p4::FieldMatch { field_id, field_match_type: Some(kind) })
    };
    forms.iter().zip(keys).zip(matches).filter_map(field).collect()
}

/// Translates an update of a table entry or of a default action. For a deletion only the key is read.
pub fn wanted(schema: &Schema, entry: &p4::TableEntry, deleted: bool) -> Result<Wanted> {
    let table = schema.table(entry.table_id)?;
    let declared = schema.declared(table);
    if entry.is_default_action {
        return default_action(schema, table, entry).map(Wanted::Entity);
    }
    // The target is set below; a deleted entry needs none.
    let nothing = ActionCall { action: declared.default.action, args: Vec::new() };
    let mut found = TableEntry::new(table, Vec::new(), nothing);
    found.key = key(schema, table, entry)?;
    if deleted {
        return Ok(Wanted::Entity(Entity::TableEntry(found)));
    }
    let name = &declared.name;
    if declared.keys.is_empty() {
        return invalid(format!("table {name} has no key: it has a default action and no entries"));
    }
    resources(declared, entry, &mut found)?;
    let does = entry.action.as_ref().and_then(|action| action.r#type.as_ref());
    match (does, declared.selector.is_some()) {
        (Some(Does::Action(action)), false) => {
            schema.check_scope(table, action.action_id, false)?;
            found.target = Target::Action(action::call(schema, table, action)?);
        }
        (Some(Does::ActionProfileMemberId(id)), true) => found.target = Target::Member(*id),
        (Some(Does::ActionProfileGroupId(id)), true) => {
            schema.check_groups(table)?;
            found.target = Target::Group(*id);
        }
        (Some(Does::ActionProfileActionSet(set)), true) => {
            schema.check_groups(table)?;
            return Ok(Wanted::OneShot(found, action_set(schema, table, set)?));
        }
        (None, _) => return invalid(format!("table {name}: the entry has no action")),
        (Some(_), true) => {
            return invalid(format!(
                "table {name} has an action profile: give a member, a group, or an action set"
            ));
        }
        (Some(_), false) => {
            return invalid(format!("table {name} has no action profile: give an action"));
        }
    }
    Ok(Wanted::Entity(Entity::TableEntry(found)))
}

/// Translates the further parts of an entry: a timeout, a meter, a counter.
pub fn resources(declared: &Table, entry: &p4::TableEntry, found: &mut TableEntry) -> Result<()> {
    let name = &declared.name;
    if entry.time_since_last_hit.is_some() {
        return invalid("time_since_last_hit is read and not written");
    }
    objects::no_colours(entry.meter_counter_data.as_ref())?;
    let timeout = unsigned(entry.idle_timeout_ns, "idle_timeout_ns")?;
    if timeout != 0 && declared.idle_timeout_ms.is_none() {
        return invalid(
            "idle_timeout_ns must be set to 0 for tables which do not support idle timeout",
        );
    }
    if timeout > Span::MAX.as_ns() {
        let most = Span::MAX.as_ns();
        let text = format!("idle_timeout_ns is {timeout}, and {most} at most");
        return Err(ControlError::OutOfRange(text));
    }
    found.idle_timeout = (timeout != 0).then(|| Span::from_ns(timeout));
    if let Some(config) = &entry.meter_config {
        let Some(kind) = declared.meter else {
            return invalid(format!("table {name} has no direct meter: meter_config"));
        };
        found.meter = Some(objects::meter_config(kind, config)?);
    }
    if let Some(data) = &entry.counter_data {
        if !declared.counters {
            return invalid(format!("table {name} has no direct counter: counter_data"));
        }
        found.counter = Some(objects::count(data)?);
    }
    Ok(())
}

/// The selection mode and size semantics that an action set names, as one number: a switch has one mode, and a profile
/// one unit, so that they only have to be read back. They are the `max_size` of the group that the set gets, which has
/// no other use there.
fn named_settings(schema: &Schema, id: TableId, set: &p4::ActionProfileActionSet) -> Result<i32> {
    use p4::action_profile_action_set::{ActionSelectionMode as Mode, SizeSemantics as Size};
    let table = &schema.declared(id).name;
    let other = |text: &str| Err(ControlError::Unimplemented(format!("table {table}: {text}")));
    match Mode::try_from(set.action_selection_mode) {
        Ok(Mode::DefaultModeDeterminedByActionSelector | Mode::Hash) => {}
        Ok(Mode::Random) => return other("action_selection_mode: members are chosen by a hash"),
        Err(_) => return invalid(format!("table {table}: unknown action_selection_mode")),
    }
    match (Size::try_from(set.size_semantics), schema.counts_members(id)) {
        (Ok(Size::DefaultSizeDeterminedByActionSelector), _)
        | (Ok(Size::SumOfMembers), true)
        | (Ok(Size::SumOfWeights), false) => {}
        (Ok(_), _) => return other("size_semantics: those of the action profile hold"),
        (Err(_), _) => return invalid(format!("table {table}: unknown size_semantics")),
    }
    Ok(set.action_selection_mode | set.size_semantics << SIZE_SHIFT)
}

/// Bits of the selection mode in `named_settings`.
const SIZE_SHIFT: u32 = 8;

/// The message of an action set with these `named_settings`.
pub fn set_message(
    action_profile_actions: Vec<p4::ActionProfileAction>,
    settings: i32,
) -> p4::ActionProfileActionSet {
    p4::ActionProfileActionSet {
        action_profile_actions,
        action_selection_mode: settings & ((1 << SIZE_SHIFT) - 1),
        size_semantics: settings >> SIZE_SHIFT,
    }
}

fn action_set(schema: &Schema, id: TableId, set: &p4::ActionProfileActionSet) -> Result<ActionSet> {
    let table = &schema.declared(id).name;
    let settings = named_settings(schema, id, set)?;
    if set.action_profile_actions.is_empty() {
        return invalid(format!("table {table}: the action set is empty"));
    }
    let one = |one: &p4::ActionProfileAction| {
        let Some(action) = &one.action else {
            return invalid(format!("table {table}: an action of the set is missing"));
        };
        schema.check_scope(id, action.action_id, false)?;
        let (weight, watch) = watch::watched_action(one)?;
        Ok(OneShot { call: action::call(schema, id, action)?, weight, watch })
    };
    let actions: Vec<OneShot> =
        set.action_profile_actions.iter().map(one).collect::<Result<_>>()?;
    let weights: Vec<u32> = actions.iter().map(|action| action.weight).collect();
    // A set that is too large is an invalid argument, a group that is too large is not (P4Runtime specification 1.5,
    // section 9.2.3).
    schema.check_group(id, &weights, 0).map_err(|error| match error {
        ControlError::ResourceExhausted(text) => ControlError::InvalidArgument(text),
        error => error,
    })?;
    Ok(ActionSet { actions, settings })
}

/// Checks that a message of a default action, written or read, has nothing that belongs to an entry only (P4Runtime
/// specification 1.5, sections 9.1.3 and 9.1.8).
///
/// # Errors
/// [`ControlError::InvalidArgument`].
pub fn check_default(entry: &p4::TableEntry, table: &str) -> Result<()> {
    if !entry.r#match.is_empty() || entry.priority != 0 {
        return invalid(format!("{table}: a default action has no match and no priority"));
    }
    if entry.time_since_last_hit.is_some() {
        return invalid(format!("{table}: a default action has no time_since_last_hit"));
    }
    Ok(())
}

fn default_action(schema: &Schema, table: TableId, entry: &p4::TableEntry) -> Result<Entity> {
    let name = &schema.declared(table).name;
    check_default(entry, &format!("table {name}"))?;
    objects::no_colours(entry.meter_counter_data.as_ref())?;
    if entry.idle_timeout_ns != 0 || entry.meter_config.is_some() || entry.counter_data.is_some() {
        return invalid(format!("table {name}: a default action has no timeout, meter or counter"));
    }
    let action = match entry.action.as_ref().map(|action| action.r#type.as_ref()) {
        // The default action that the program declares.
        None => None,
        Some(None) => {
            return invalid(format!("table {name}: the action is empty; without one it is reset"));
        }
        Some(Some(Does::Action(action))) => {
            schema.check_scope(table, action.action_id, true)?;
            Some(action::call(schema, table, action)?)
        }
        Some(Some(_)) => {
            return invalid(format!("table {name}: a default action is a single action"));
        }
    };
    Ok(Entity::DefaultAction { table, action })
}

/// The parts of an entry that a read includes beside its key and action.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts {
    /// The direct counter.
    pub counter: bool,
    /// The direct meter's rates.
    pub meter: bool,
    /// The time since the last hit.
    pub since_hit: bool,
}

/// An entry as a message. `action` is its target.
pub fn message(schema: &Schema, entry: &TableEntry, action: Does, parts: Parts) -> p4::TableEntry {
    let since = entry.since_hit.filter(|_| parts.since_hit);
    p4::TableEntry {
        table_id: schema.ids.tables[entry.key.table.index()],
        r#match: entry_matches(schema, &entry.key),
        action: Some(p4::TableAction { r#type: Some(action) }),
        priority: entry.key.priority as i32,
        meter_config: entry.meter.as_ref().filter(|_| parts.meter).map(objects::meter_message),
        counter_data: entry.counter.filter(|_| parts.counter).map(objects::count_message),
        idle_timeout_ns: entry.idle_timeout.map_or(0, span_ns),
        time_since_last_hit: since
            .map(|since| p4::table_entry::IdleTimeout { elapsed_ns: span_ns(since) }),
        is_const: entry.is_const,
        ..Default::default()
    }
}

/// A time in the unit of messages.
pub fn span_ns(span: Span) -> i64 {
    i64::try_from(span.as_ns()).unwrap_or(i64::MAX)
}

/// A direct counter as a message.
pub fn direct_counter(schema: &Schema, key: &EntryKey, count: Count) -> p4::DirectCounterEntry {
    p4::DirectCounterEntry {
        table_entry: Some(key_message(schema, key)),
        data: Some(objects::count_message(count)),
    }
}

/// A direct meter as a message.
pub fn direct_meter(
    schema: &Schema,
    key: &EntryKey,
    config: Option<&wireyard_tables::meter::MeterConfig>,
) -> p4::DirectMeterEntry {
    p4::DirectMeterEntry {
        table_entry: Some(key_message(schema, key)),
        config: config.map(objects::meter_message),
        counter_data: None,
    }
}

/// The message of an entry with only its key, for use in other messages.
pub fn key_message(schema: &Schema, key: &EntryKey) -> p4::TableEntry {
    p4::TableEntry {
        table_id: schema.ids.tables[key.table.index()],
        r#match: entry_matches(schema, key),
        priority: key.priority as i32,
        ..Default::default()
    }
}
