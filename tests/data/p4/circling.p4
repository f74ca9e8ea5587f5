// Loops of parser states that move no cursor.
#include <core.p4>
#include <v1model.p4>

header note_t { bit<8> kind; bit<8> count; bit<8> sum; }
header rest_t { varbit<32> rest; }
struct headers { note_t note; rest_t[3] rests; }
struct metadata { bit<8> left; bit<8> sum; }

parser P(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.note);
        meta.left = hdr.note.count;
        transition select(hdr.note.kind) { 1: counted; 2: endless; 3: empty; default: accept; }
    }
    state counted {
        transition select(meta.left) { 0: accept; default: count_again; }
    }
    state count_again {
        meta.left = meta.left - 1;
        meta.sum = meta.sum + 3;
        transition counted;
    }
    state endless { transition endless; }
    // The stack ends it.
    state empty { packet.extract(hdr.rests.next, 0); transition empty; }
}
control V(inout headers hdr, inout metadata meta) { apply { } }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    apply {
        hdr.note.sum = meta.sum;
        standard_metadata.egress_spec = 2;
        if (standard_metadata.parser_error == error.ParserTimeout) { standard_metadata.egress_spec = 3; }
        if (standard_metadata.parser_error == error.StackOutOfBounds) { standard_metadata.egress_spec = 4; }
    }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) { apply { } }
control C(inout headers hdr, inout metadata meta) { apply { } }
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
