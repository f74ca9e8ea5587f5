# What programs of research have: a comment like this, the queue's number, `recirculate` in ingress, a header that is a struct to them,
# counters that are made where a table names them.
#include <core.p4>
#include <v1model.p4>

header note_t { bit<8> kind; bit<8> class; bit<8> queue; bit<8> passes; bit<8> kept; }
struct headers { note_t note; }
header scratch_t { bit<8> x; bit<8> y; }
struct metadata { @field_list(1) bit<8> kept; bit<8> lost; scratch_t scratch; }

parser P(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    state start { packet.extract(hdr.note); transition accept; }
}
control V(inout headers hdr, inout metadata meta) { apply { } }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    action count_up() { meta.scratch.y = meta.scratch.y + 1; }
    table one {
        key = { hdr.note.kind: exact; }
        actions = { count_up; NoAction; }
        const default_action = NoAction();
        counters = direct_counter(CounterType.packets);
    }
    table two {
        key = { hdr.note.class: exact; }
        actions = { count_up; NoAction; }
        const default_action = NoAction();
        counters = direct_counter(CounterType.packets_and_bytes);
    }
    apply {
        meta.scratch.x = hdr.note.kind + 1;
        one.apply();
        two.apply();
        if (hdr.note.kind == 6) { hdr.note.kept = meta.scratch.x ++ meta.scratch.y == 0x702 ? 8w9 : 8w0; }
        standard_metadata.egress_spec = 2;
        standard_metadata.priority = hdr.note.class[2:0];
        # the second pass
        if (standard_metadata.instance_type == 4) {
            hdr.note.kept = meta.kept + meta.lost;
            standard_metadata.egress_spec = 3;
        } else if (hdr.note.kind == 2) {
            meta.kept = 7;
            meta.lost = 16;
            recirculate_preserving_field_list(1);
        } else if (hdr.note.kind == 3) {
            recirculate_preserving_field_list(1);
            mark_to_drop(standard_metadata);
        } else if (hdr.note.kind == 4) {
            clone(CloneType.I2E, 5);
            recirculate_preserving_field_list(1);
        }
    }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    apply {
        hdr.note.queue = (bit<8>) standard_metadata.qid;
        hdr.note.passes = hdr.note.passes + 1;
        if (hdr.note.kind == 5 && hdr.note.passes == 1) { recirculate_preserving_field_list(1); }
    }
}
control C(inout headers hdr, inout metadata meta) { apply { } }
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
