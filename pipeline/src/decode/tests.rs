use super::*;
use crate::check::{ExternRegistry, compile};
use crate::source::{Loader, parse_program};

const PROGRAM: &str = "
pipeline: p
headers: { a: { fields: { bytes: 8 } }, b: { fields: { x: 8 } }, t: { fields: { sum: 16 } } }
instances: { tag: t }
errors: [bad_length]
parser:
  start:
    extract: a
    verify: { bit<32>(a.bytes) == std.packet_length: bad_length }
    extract_at: { tag: bit<32>(a.bytes) - 2 }
    body_end: bit<32>(a.bytes) - 2
    next: b
  b: { extract: b }
deparser: { emit: [a, b], after: [tag] }
";

fn decoder() -> Decoder {
    let loader = Loader::in_memory([("p.yaml", PROGRAM)], &[]);
    let parsed = parse_program("p.yaml".as_ref(), &loader).unwrap();
    let compiled = compile(&parsed, &ExternRegistry::default());
    Decoder::new(compiled.unwrap().program.into()).unwrap()
}

#[test]
fn a_packet_cut_by_the_capture_has_its_length_and_all_but_its_trailers() {
    let (mut decoder, packet) = (decoder(), [8, 1, 2, 3, 4, 5, 6, 7]);
    let whole = decoder.parse(&packet, 0).unwrap();
    assert_eq!((whole.error(), whole.field("tag.sum")), (None, Some(0x0607)));
    for captured in 2..8 {
        let missing = 8 - captured as u32;
        let cut = decoder.parse_cut(&packet[..captured], missing, 0).unwrap();
        assert_eq!((cut.error(), cut.field("b.x")), (None, Some(1)), "{captured}");
        assert!(cut.header("tag").is_none(), "{captured}");
        assert_eq!(cut.body(), &packet[2..captured.min(6)], "{captured}");
        // What the packet itself has not is still an error.
        let wrong = decoder.parse_cut(&packet[..captured], missing - 1, 0).unwrap();
        assert_eq!(wrong.error(), Some("bad_length"), "{captured}");
    }
    let short = decoder.parse_cut(&packet[..1], 7, 0).unwrap();
    assert_eq!((short.error(), short.header("a").is_some()), (Some("packet_too_short"), true));
    // Nothing stays for the next packet.
    assert_eq!(decoder.parse(&packet[..7], 0).unwrap().error(), Some("bad_length"));
}
