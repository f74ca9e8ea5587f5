//! The messages and the service of P4Runtime, made by `build.rs` of the files in `switch/proto`, and their text form.

#![allow(missing_docs, unreachable_pub, clippy::all, reason = "generated code")]

use p4::config::v1::{P4Info, P4TypeInfo};
use prost::Message;
use prost_reflect::text_format::FormatOptions;
use prost_reflect::{DescriptorPool, DynamicMessage};

include!(concat!(env!("OUT_DIR"), "/p4runtime.rs"));

/// What stands in the `.proto` files.
const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// A P4Info as a message that knows the names of its fields.
fn dynamic(info: &p4::config::v1::P4Info) -> DynamicMessage {
    let pool = DescriptorPool::decode(DESCRIPTORS).expect("descriptors made by build.rs");
    let name = "p4.config.v1.P4Info";
    let descriptor = pool.get_message_by_name(name).expect("the message is in the descriptors");
    DynamicMessage::decode(descriptor, info.encode_to_vec().as_slice())
        .expect("a message that was just encoded")
}

/// A P4Info as protobuf text, as p4c writes it. Its types stand last.
pub fn p4info_text(info: &p4::config::v1::P4Info) -> String {
    let options = FormatOptions::new().pretty(true);
    let text = |info: &P4Info| dynamic(info).to_text_format_with_options(&options);
    let mut rest = info.clone();
    let types = rest.type_info.take();
    let mut all = text(&rest);
    if let Some(types) = types {
        all.push_str(if all.is_empty() { "type_info {" } else { "\ntype_info {" });
        for one in one_by_one(&types) {
            let alone = text(&P4Info { type_info: Some(one), ..P4Info::default() });
            let inner = alone.strip_prefix("type_info {").and_then(|text| text.strip_suffix("\n}"));
            all.push_str(inner.unwrap_or(&alone));
        }
        all.push_str("\n}");
    }
    all.push('\n');
    all
}

/// The types of a P4Info in messages of one type each, in the order of kinds and names: a message of many has no order of its own.
fn one_by_one(types: &P4TypeInfo) -> Vec<P4TypeInfo> {
    let mut alone = Vec::new();
    macro_rules! each {
        ($($kind:ident),*) => {$(
            for (name, of) in &types.$kind {
                let $kind = [(name.clone(), of.clone())].into();
                alone.push(P4TypeInfo { $kind, ..P4TypeInfo::default() });
            }
        )*};
    }
    each!(structs, headers, header_unions, enums);
    if types.error.is_some() {
        alone.push(P4TypeInfo { error: types.error.clone(), ..P4TypeInfo::default() });
    }
    each!(serializable_enums, new_types);
    alone
}

/// A P4Info as protobuf JSON.
pub fn p4info_json(info: &p4::config::v1::P4Info) -> String {
    let mut value = serde_json::to_value(dynamic(info)).expect("a message has a JSON form");
    let types = value.get_mut("typeInfo").and_then(serde_json::Value::as_object_mut);
    for kind in types.into_iter().flat_map(serde_json::Map::values_mut) {
        kind.as_object_mut().into_iter().for_each(serde_json::Map::sort_keys);
    }
    format!("{value:#}\n")
}
