//! The messages and the service of P4Runtime, made by `build.rs` of the files in `switch/proto`, and their text form.

#![allow(missing_docs, unreachable_pub, clippy::all, reason = "generated code")]

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

/// A P4Info as protobuf text, as p4c writes it.
pub fn p4info_text(info: &p4::config::v1::P4Info) -> String {
    let options = FormatOptions::new().pretty(true);
    let mut text = dynamic(info).to_text_format_with_options(&options);
    text.push('\n');
    text
}

/// A P4Info as protobuf JSON.
pub fn p4info_json(info: &p4::config::v1::P4Info) -> String {
    let mut text = serde_json::to_string_pretty(&dynamic(info)).expect("a message has a JSON form");
    text.push('\n');
    text
}
