// A chain of ninety `else if`.
#include <core.p4>
#include <v1model.p4>

#define ONE(n) if (hdr.note.a == n) { hdr.note.b = n + 1; } else
#define TEN(n) ONE(n##0) ONE(n##1) ONE(n##2) ONE(n##3) ONE(n##4) ONE(n##5) ONE(n##6) ONE(n##7) ONE(n##8) ONE(n##9)

header note_t { bit<8> a; bit<8> b; bit<8> c; }
struct headers { note_t note; }
struct metadata { }

parser P(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    state start { packet.extract(hdr.note); transition accept; }
}
control V(inout headers hdr, inout metadata meta) { apply { } }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    apply {
        TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) TEN(9) if (hdr.note.a == 200) {
            mark_to_drop(standard_metadata);
            exit;
        } else {
            hdr.note.b = 0xee;
        }
        hdr.note.c = 1;
        standard_metadata.egress_spec = 2;
    }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) { apply { } }
control C(inout headers hdr, inout metadata meta) { apply { } }
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
