// Of several clones in a pass the last one is made, with its list (v1model.p4, `clone`).
#include <core.p4>
#include <v1model.p4>

header head_t { bit<8> what; bit<8> first; bit<8> second; }
struct headers { head_t head; }
struct metadata { @field_list(1) bit<8> first; @field_list(2) bit<8> second; }

parser Parse(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    state start { packet.extract(hdr.head); transition accept; }
}
control Nothing(inout headers hdr, inout metadata meta) { apply { } }
control In(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    action mirror(bit<32> session) { clone_preserving_field_list(CloneType.I2E, session, 1); }
    apply {
        standard.egress_spec = 2;
        meta.first = 1;
        meta.second = 2;
        if (hdr.head.what < 3) { mirror(5); }
        if (hdr.head.what == 2) { clone_preserving_field_list(CloneType.I2E, 6, 2); }
        if (hdr.head.what == 4) { clone(CloneType.I2E, 6); mark_to_drop(standard); exit; }
    }
}
control Out(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    apply {
        if (standard.instance_type == 1) {
            hdr.head.first = meta.first;
            hdr.head.second = meta.second;
        } else if (standard.instance_type == 0 && hdr.head.what == 3) {
            clone(CloneType.E2E, 6);
            clone(CloneType.E2E, 5);
            mark_to_drop(standard);
        }
    }
}
control Deparse(packet_out packet, in headers hdr) { apply { packet.emit(hdr.head); } }

V1Switch(Parse(), Nothing(), In(), Out(), Nothing(), Deparse()) main;
