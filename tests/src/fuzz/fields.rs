//! Messages of Protocol Buffers with one field changed, found in their bytes without their types.

use prost::encoding::{decode_varint, encode_varint};

use crate::differ::random::Random;

/// Messages within messages that are looked into.
const DEPTH_MAX: usize = 8;

enum Value {
    Number(u64),
    Fixed(Vec<u8>),
    Bytes(Vec<u8>),
}

struct Field {
    /// The number of the field and the kind of its value.
    key: u64,
    value: Value,
}

fn take(bytes: &mut &[u8], count: usize) -> Option<Vec<u8>> {
    let (taken, left) = bytes.split_at_checked(count)?;
    *bytes = left;
    Some(taken.to_vec())
}

/// The fields, if these bytes are a message.
fn fields(mut bytes: &[u8]) -> Option<Vec<Field>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = decode_varint(&mut bytes).ok()?;
        let value = match key & 7 {
            0 => Value::Number(decode_varint(&mut bytes).ok()?),
            1 => Value::Fixed(take(&mut bytes, 8)?),
            2 => {
                let count = decode_varint(&mut bytes).ok()?;
                Value::Bytes(take(&mut bytes, usize::try_from(count).ok()?)?)
            }
            5 => Value::Fixed(take(&mut bytes, 4)?),
            _ => return None,
        };
        (key >> 3 != 0).then_some(())?;
        found.push(Field { key, value });
    }
    Some(found)
}

fn bytes(fields: &[Field]) -> Vec<u8> {
    let mut out = Vec::new();
    for Field { key, value } in fields {
        encode_varint(*key, &mut out);
        match value {
            Value::Number(number) => encode_varint(*number, &mut out),
            Value::Fixed(bytes) => out.extend(bytes),
            Value::Bytes(bytes) => {
                encode_varint(bytes.len() as u64, &mut out);
                out.extend(bytes);
            }
        }
    }
    out
}

/// The message with one of its fields changed, or of a message within it: left out, doubled, exchanged with another one, with another
/// number, or with another value.
pub fn change(random: &mut Random, message: &[u8]) -> Vec<u8> {
    change_within(random, message, DEPTH_MAX).unwrap_or_else(|| message.to_vec())
}

fn change_within(random: &mut Random, message: &[u8], depth: usize) -> Option<Vec<u8>> {
    let mut all = fields(message).filter(|all| !all.is_empty())?;
    let at = random.below(all.len());
    // Most changes are those of the innermost values.
    if let Value::Bytes(inner) = &mut all[at].value
        && depth > 0
        && random.below(4) > 0
        && let Some(changed) = change_within(random, inner, depth - 1)
    {
        *inner = changed;
        return Some(bytes(&all));
    }
    match random.below(10) {
        0 => drop(all.remove(at)),
        1 => {
            let again = Field { key: all[at].key, value: other(random, &all[at].value) };
            all.push(again);
        }
        2 => {
            let with = random.below(all.len());
            all.swap(at, with);
        }
        3 => all[at].key += 8 << random.below(4),
        _ => all[at].value = other(random, &all[at].value),
    }
    Some(bytes(&all))
}

/// Another value of this kind: mostly one at the edge of something.
fn other(random: &mut Random, value: &Value) -> Value {
    match value {
        Value::Number(n) => {
            let edges = [0, 1, n.wrapping_add(1), n.wrapping_sub(1), n ^ (1 << random.below(32))];
            let far = [u64::MAX, i64::MIN as u64, i64::MAX as u64, 1 << 31, u32::MAX.into()];
            let any = [random.bits()];
            Value::Number(random.pick(&[&edges[..], &far, &any].concat()))
        }
        Value::Fixed(bytes) => Value::Fixed(bytes.iter().map(|_| random.bits() as u8).collect()),
        Value::Bytes(bytes) => {
            let mut bytes = bytes.clone();
            match random.below(6) {
                0 => bytes.clear(),
                1 => bytes.insert(0, 0),
                2 => bytes.push(random.bits() as u8),
                3 => drop(bytes.pop()),
                4 => bytes.resize(bytes.len() + random.below(300), random.bits() as u8),
                _ => bytes.iter_mut().for_each(|byte| *byte = random.bits() as u8),
            }
            Value::Bytes(bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use wireyard_switch::p4runtime::proto::p4::v1 as p4;

    use super::*;

    /// Changed messages are messages, nearly all of them others, and fields of messages within them change too.
    #[test]
    fn changed_messages_are_messages() {
        let index = Some(p4::Index { index: 5 });
        let data = Some(p4::CounterData { byte_count: 7, packet_count: 9 });
        let counter = p4::CounterEntry { counter_id: 3, index, data };
        let entity = Some(p4::entity::Entity::CounterEntry(counter));
        let update = p4::Update { r#type: 2, entity: Some(p4::Entity { entity }) };
        let before = p4::WriteRequest { device_id: 1, updates: vec![update], ..Default::default() };
        let (mut random, mut changed, mut deep) = (Random::new(1), 0, 0);
        for _ in 0..1000 {
            let bytes = change(&mut random, &before.encode_to_vec());
            assert!(fields(&bytes).is_some(), "{bytes:?}");
            let Ok(after) = p4::WriteRequest::decode(bytes.as_slice()) else { continue };
            changed += usize::from(after != before);
            let entity = |request: &p4::WriteRequest| {
                request.updates.first().and_then(|update| update.entity.clone()?.entity)
            };
            let data = |request: &p4::WriteRequest| match entity(request) {
                Some(p4::entity::Entity::CounterEntry(counter)) => counter.data,
                _ => None,
            };
            deep += usize::from(data(&after).is_some() && data(&after) != data(&before));
        }
        assert!(changed > 400 && deep > 10, "{changed} {deep}");
    }
}
