//! Packets and notices between controllers and the device.
//!
//! A packet to the control plane begins with the program's header with `controller: packet_in`, if it has one and the
//! packet's egress made it valid; its fields become metadata. A packet out gets the header with `controller:
//! packet_out` in front, with values from its metadata, and enters ingress by the CPU port.

use wireyard_pipeline::ids::{HeaderId, Id};
use wireyard_pipeline::ir::{ControllerHeader, Field};

use super::arbitration::StreamId;
use super::counts::add;
use super::forms;
use super::proto::p4::v1 as p4;
use super::schema::Schema;
use super::service::Service;
use super::status::code;
use crate::control::{ControlError, invalid};
use crate::core::PuntedPacket;
use p4::stream_error::Details;
use p4::stream_message_response::Update;

type Result<T> = std::result::Result<T, ControlError>;

/// The message for a packet that was sent to the control plane.
pub fn packet_in(schema: &Schema, packet: &PuntedPacket) -> p4::PacketIn {
    let bytes = packet.bytes.as_slice();
    let is_there = |header: &HeaderId| {
        let instances = schema.program.instances.entries();
        let mut of_header = instances.filter(|(_, instance)| instance.header == *header);
        of_header.any(|(id, _)| packet.valid >> id.0 & 1 == 1)
    };
    let header = schema.controller(ControllerHeader::PacketIn).filter(is_there);
    let split = header.and_then(|header| {
        let fixed = schema.program.headers[header].fixed_bytes as usize;
        Some((header, bytes.split_at_checked(fixed)?))
    });
    let Some((header, (front, payload))) = split else {
        return p4::PacketIn { payload: bytes.to_vec(), metadata: Vec::new() };
    };
    let fields =
        schema.forms.of_header(header).iter().zip(schema.program.headers[header].declared());
    let metadata = fields.map(|(form, field)| {
        let value = form.write(field.layout.read(front));
        p4::PacketMetadata { metadata_id: form.id, value }
    });
    p4::PacketIn { payload: payload.to_vec(), metadata: metadata.collect() }
}

/// The bytes of a packet out.
fn packet_bytes(schema: &Schema, packet: &p4::PacketOut) -> Result<Vec<u8>> {
    let Some(header) = schema.controller(ControllerHeader::PacketOut) else {
        return match packet.metadata.is_empty() {
            true => Ok(packet.payload.clone()),
            false => invalid(
                "the program has no header with `controller: packet_out`, so a packet has no metadata",
            ),
        };
    };
    let mut bytes = header_bytes(schema, header, &packet.metadata)?;
    bytes.extend_from_slice(&packet.payload);
    Ok(bytes)
}

fn header_bytes(
    schema: &Schema,
    header: HeaderId,
    metadata: &[p4::PacketMetadata],
) -> Result<Vec<u8>> {
    let (declared, forms) = (&schema.program.headers[header], schema.forms.of_header(header));
    let mut bytes = vec![0; declared.fixed_bytes as usize];
    let fields: Vec<&Field> = declared.declared().collect();
    let mut given = vec![false; fields.len()];
    for one in metadata {
        let Some(at) = forms::find(forms, one.metadata_id) else {
            return invalid(format!(
                "header {} has {} fields; there is no metadata {}",
                declared.name,
                fields.len(),
                one.metadata_id
            ));
        };
        let field = fields[at];
        let value =
            forms[at].read(&one.value, field.bits, || format!("metadata {}", field.name))?;
        field.layout.write(&mut bytes, value);
        if std::mem::replace(&mut given[at], true) {
            let text = format!("metadata {} (id {}) is given twice", field.name, one.metadata_id);
            return invalid(text);
        }
    }
    match given.iter().position(|given| !given) {
        None => Ok(bytes),
        Some(at) => {
            let field = fields[at];
            let text = format!("metadata {} (id {}) is missing", field.name, forms[at].id);
            invalid(text)
        }
    }
}

/// Sends a packet of a controller.
pub(super) fn packet_out(service: &Service, id: StreamId, packet: p4::PacketOut) {
    let sent = primary(service, id).and_then(|()| {
        let pipeline = service.device.pipeline();
        service.device.control.packet_out(&packet_bytes(&pipeline.schema, &packet)?)
    });
    let counts = &service.device.counts;
    add(if sent.is_ok() { &counts.packets_out } else { &counts.packets_out_refused }, 1);
    if let Err(error) = sent {
        let packet_out = Some(packet);
        let details = Details::PacketOut(p4::PacketOutError { packet_out });
        stream_error(service, id, &error, details);
    }
}

/// Acknowledges a list of digests.
pub(super) fn digest_ack(service: &Service, id: StreamId, ack: p4::DigestListAck) {
    let done = primary(service, id).and_then(|()| {
        // A reference to an object that does not exist is an invalid argument in a stream.
        let digests = service.device.pipeline().schema.digests(ack.digest_id);
        let digests = digests.map_err(ControlError::invalid)?;
        let mut sent = service.device.digests();
        let done = digests.into_iter().try_for_each(|digest| sent.acknowledge(digest, ack.list_id));
        service.device.counts.digests(sent.counts());
        done
    });
    if let Err(error) = done {
        let digest_list_ack = Some(ack);
        let details = Details::DigestListAck(p4::DigestListAckError { digest_list_ack });
        stream_error(service, id, &error, details);
    }
}

/// Refuses a message that the standard leaves to vendors.
pub(super) fn other(service: &Service, id: StreamId, other: prost_types::Any) {
    let text = format!("this switch has no messages of its own: {}", other.type_url);
    let details = Details::Other(p4::StreamOtherError { other: Some(other) });
    stream_error(service, id, &ControlError::Unimplemented(text), details);
}

fn primary(service: &Service, id: StreamId) -> Result<()> {
    let is_primary = service.device.arbitration().primaries().any(|primary| primary == id);
    match is_primary {
        true => Ok(()),
        false => {
            Err(ControlError::PermissionDenied("only the primary controller may send this".into()))
        }
    }
}

fn stream_error(service: &Service, id: StreamId, error: &ControlError, details: Details) {
    let error = p4::StreamError {
        canonical_code: code(error) as i32,
        message: error.to_string(),
        details: Some(details),
        ..Default::default()
    };
    service.streams.send(id, Update::Error(error));
}

/// The message for a list of digests.
pub fn digest_list(
    schema: &Schema,
    list: &super::digests::List,
    timestamp_ns: i64,
) -> p4::DigestList {
    let message = |values: &Vec<u128>| schema.forms.digest(list.digest.index(), values);
    p4::DigestList {
        digest_id: schema.ids.digests[list.digest.index()],
        list_id: list.id,
        data: list.messages.iter().map(message).collect(),
        timestamp: timestamp_ns,
    }
}

#[cfg(test)]
mod tests {
    use wireyard_pipeline::ir::Instance;

    use super::*;
    use crate::ports::PortNumber;
    use crate::program::from_text;

    const PROGRAM: &str = "
pipeline: demo
headers:
  to_controller: { controller: packet_in, fields: { ingress_port: 9, reason: 7 } }
  from_controller: { controller: packet_out, fields: { egress_port: 9, pad: 7 } }
parser:
  start: { select: std.packet_path, cases: { path.from_cpu: out }, default: accept }
  out: { extract: from_controller }
ingress:
  - if: from_controller.valid
    then: [ std.egress_port = bit<16>(from_controller.egress_port), set_invalid(from_controller) ]
    else: [ std.egress_port = CPU_PORT ]
egress:
  - if: std.egress_port == CPU_PORT
    then:
      - set_valid(to_controller)
      - to_controller.ingress_port = std.ingress_port[8:0]
      - to_controller.reason = 5
deparser: { emit: [to_controller, from_controller] }
";

    #[test]
    fn metadata_are_the_fields_of_the_headers_of_the_program() {
        let program = from_text("demo.yaml", PROGRAM).unwrap().program;
        let schema = Schema::of(program);
        let of_name = |(_, one): &(_, &Instance)| one.name == "to_controller";
        let (id, _) = schema.program.instances.entries().find(of_name).unwrap();
        let mut punted = PuntedPacket {
            reason: "punt".into(),
            ingress_port: PortNumber(2),
            valid: 1 << id.0,
            bytes: vec![0x01, 0x05, 0xaa, 0xbb],
        };
        let packet = packet_in(&schema, &punted);
        assert_eq!(packet.payload, [0xaa, 0xbb]);
        // Without the header all is payload.
        punted.valid = 0;
        let without = packet_in(&schema, &punted);
        assert_eq!((without.payload, without.metadata), (punted.bytes, Vec::new()));
        let values: Vec<(u32, Vec<u8>)> =
            packet.metadata.iter().map(|one| (one.metadata_id, one.value.clone())).collect();
        assert_eq!(values, [(1, vec![2]), (2, vec![5])]);
        let metadata =
            |id, value: &[u8]| p4::PacketMetadata { metadata_id: id, value: value.into() };
        let out = |metadata| p4::PacketOut { payload: vec![0xcc], metadata };
        let all = out(vec![metadata(2, &[0]), metadata(1, &[1, 0x01])]);
        assert_eq!(packet_bytes(&schema, &all).unwrap(), [0x80, 0x80, 0xcc]);
        let missing = packet_bytes(&schema, &out(vec![metadata(1, &[1])])).unwrap_err();
        assert!(missing.to_string().contains("metadata pad (id 2) is missing"), "{missing}");
        let wide = packet_bytes(&schema, &out(vec![metadata(1, &[2, 0])])).unwrap_err();
        assert!(matches!(wide, ControlError::OutOfRange(_)), "{wide}");
        let twice = out(vec![metadata(2, &[0]), metadata(1, &[1]), metadata(1, &[2])]);
        let twice = packet_bytes(&schema, &twice).unwrap_err();
        assert!(twice.to_string().contains("is given twice"), "{twice}");
    }
}
